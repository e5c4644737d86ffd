// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/restart_policy.h"

#include <algorithm>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_resources.h"

namespace holdfast::agent::kube {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kRestartAll[] = "RestartAllContainers";

bool Matches(const core::ContainerRestartRule& rule, int32_t exit_code) {
  const auto& codes = rule.exitcodes();
  const bool listed =
      std::find(codes.values().begin(), codes.values().end(), exit_code) != codes.values().end();
  return codes.operator_() == "NotIn" ? !listed : listed;
}

const core::ContainerRestartRule* FirstMatch(const core::Container& container, int32_t exit_code) {
  for (const core::ContainerRestartRule& rule : container.restartpolicyrules()) {
    if (Matches(rule, exit_code)) return &rule;
  }
  return nullptr;
}

}  // namespace

bool RestartsAfter(const core::Pod& pod, const core::Container& container, bool in_init_list,
                   int32_t exit_code) {
  if (in_init_list && IsSidecar(container)) return true;
  // Both actions bring it back.
  if (FirstMatch(container, exit_code) != nullptr) return true;
  const std::string& own = container.restartpolicy();
  const std::string& policy = own.empty() ? pod.spec().restartpolicy() : own;
  if (policy == "Never") return false;
  if (policy == "OnFailure" || in_init_list) return exit_code != 0;
  return true;
}

bool RestartsAllAfter(const core::Container& container, int32_t exit_code) {
  const auto* rule = FirstMatch(container, exit_code);
  return rule != nullptr && rule->action() == kRestartAll;
}

bool CouldRestartAll(const core::Pod& pod) {
  bool could = false;
  ForEachContainer(pod.spec(), [&could](ContainerList /*list*/, const auto& container) {
    for (const auto& rule : container.restartpolicyrules()) could |= rule.action() == kRestartAll;
  });
  return could;
}

}  // namespace holdfast::agent::kube
