// SPDX-License-Identifier: Apache-2.0
// RefusalBudget: how many refusals of one user are written to the audit log. A caller can bring
// about as many as he likes; each as a line would push what was really done out of the log. Some at
// once and then one a second are written, the others counted in the next line that is. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "holdfast/base/clock.h"

namespace holdfast::agent::access {

class RefusalBudget {
 public:
  // How many before this one were not written; nullopt: neither is this one.
  std::optional<uint64_t> Take(uid_t uid, BootTime now);

 private:
  struct Account {
    double lines = 0;
    uint64_t left_out = 0;
    BootTime filled;
  };

  std::mutex mutex_;
  std::map<uid_t, Account> accounts_;  // at most kMaxUsers
};

}  // namespace holdfast::agent::access
