// SPDX-License-Identifier: Apache-2.0
// Starting launcher and logger from the holder's copy of the keeper's binary. Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::keeper {

// fork and execveat; the child gets no descriptor but 0, 1 and 2, no blocked signal, an
// environment of its own (sys::OwnProgramEnvironment). The caller is its parent and reaps it.
Result<pid_t> SpawnKeeper(int binary, const std::vector<std::string>& args);

// A child that dies soon after its start is started again later and later, up to a second.
class RestartDelay {
 public:
  void Started(int64_t now_ms) { started_ms_ = now_ms; }
  bool WasStarted() const { return started_ms_ != 0; }
  // When to start again, given that it just died.
  int64_t Died(int64_t now_ms);

 private:
  int64_t started_ms_ = 0;
  int64_t delay_ms_ = 0;
};

}  // namespace holdfast::runtime::keeper
