// SPDX-License-Identifier: Apache-2.0
// Rollback: undo steps of a multi-step set-up, run in reverse unless Release() was called.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace holdfast {

class Rollback {
 public:
  Rollback() = default;
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  ~Rollback() {
    for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) (*it)();
  }

  // `undo` must not throw; it handles its own failures (what it cannot undo, recover() finds).
  void Add(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  void Release() { undo_.clear(); }

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace holdfast
