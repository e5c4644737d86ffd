// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/pod_rules_guard.h"

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<std::unique_ptr<PodRulesGuard>> PodRulesGuard::Start(
    netproxy::PodNet& network, const std::string& table_name,
    std::function<void(const std::string& line)> log) {
  ASSIGN_OR_RETURN(auto watch, netproxy::nft::NftWatch::Open(table_name, network.rules_sender()));
  std::unique_ptr<PodRulesGuard> guard(
      new PodRulesGuard(network, std::move(watch), std::move(log)));
  ASSIGN_OR_RETURN(guard->thread_,
                   FdThread::Start(guard->watch_.fd(), [g = guard.get()] { return g->Look(); }));
  return guard;
}

bool PodRulesGuard::Look() {
  const auto touched = watch_.Drain();
  if (!touched) {
    log_(StrCat("pod network rules: ", touched.error().message(),
                "; others' changes are found by the periodic comparison only"));
    return false;
  }
  if (!*touched) return true;
  const auto repaired = network_.RepairRules();
  if (!repaired) {
    log_(StrCat("pod network rules: ", repaired.error().message()));
  } else if (*repaired) {
    log_("pod network rules: somebody changed them, they are put back");
  }
  return true;
}

}  // namespace holdfast::agent
