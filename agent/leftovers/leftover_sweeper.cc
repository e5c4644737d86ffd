// SPDX-License-Identifier: Apache-2.0
#include "agent/leftovers/leftover_sweeper.h"

#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {

LeftoverSweeper::LeftoverSweeper(std::vector<std::string> asides,
                                 std::function<void(const std::string&)> log)
    : asides_(std::move(asides)), log_(std::move(log)) {}

LeftoverSweeper::~LeftoverSweeper() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Result<void> LeftoverSweeper::Start(std::chrono::milliseconds period) {
  ASSIGN_OR_RETURN(thread_, sys::StartThread("leftovers", [this, period] { Run(period); }));
  return {};
}

void LeftoverSweeper::Run(std::chrono::milliseconds period) {
  const std::stop_token stop = stop_.get_token();
  while (!stop.stop_requested()) {
    Sweep(stop);
    std::unique_lock lock(waiting_);
    wake_.wait_for(lock, stop, period, [] { return false; });
  }
}

// Each tree is told when it is found to stay, and when it went after all.
void LeftoverSweeper::Sweep(const std::stop_token& stop) {
  const std::lock_guard hold(removing_);
  for (const std::string& aside : asides_) {
    for (const sys::AsideTree& tree : sys::RetryAside(aside, stop)) {
      if (stop.stop_requested()) return;
      if (tree.reason.empty()) {
        told_.erase(tree.path);
        log_(StrCat("left over ", tree.path, ": removed"));
      } else if (told_.insert(tree.path).second) {
        log_(StrCat("left over ", tree.path, ": ", tree.reason, ", trying again"));
      }
    }
  }
}

std::vector<Leftover> LeftoverSweeper::Audit(bool repair) {
  std::vector<Leftover> found;
  for (const std::string& aside : asides_) {
    std::vector<sys::AsideTree> trees;
    if (repair) {
      const std::lock_guard hold(removing_);
      trees = sys::RetryAside(aside, {}, std::chrono::seconds(20));
    } else {
      trees = sys::ListAside(aside);
    }
    for (const sys::AsideTree& tree : trees) {
      std::string reason = "could not be removed and was set aside";
      if (!tree.reason.empty()) reason += StrCat("; removing it failed: ", tree.reason);
      found.push_back({"directory", tree.path, std::move(reason)});
    }
  }
  return found;
}

}  // namespace holdfast::agent
