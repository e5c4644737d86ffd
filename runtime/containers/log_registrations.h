// SPDX-License-Identifier: Apache-2.0
// LogRegistrations: that the logger knows of the logs of containers that run. A start does not wait for it before its
// program runs (start.h), so it may have been cut short in between, or have waited in vain. What a container writes until
// then waits in its pipes, which the holder keeps. Thread-safe; the parts outlive it.
#pragma once

#include <mutex>
#include <set>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "runtime/containers/parts.h"

namespace holdfast::runtime {

class LogRegistrations {
 public:
  explicit LogRegistrations(Parts& parts) : parts_(parts) {}

  // Of the containers in the table: those which the logger has not heard of. Once, before the others.
  Result<void> EnsureAll();
  // Of a container that was adopted. A failure is told.
  void Ensure(const ContainerRecord& record);
  // The logger did not answer the start of this container, which runs.
  void NoteLate(const ContainerId& id);
  // Asks the logger again about those; waits for it. One that it refuses is told, as by Ensure().
  void EnsureLate();
  // Of what came of asking the logger: no answer, which is no refusal.
  static bool IsNoAnswer(const Error& error) {
    return error.code() == Code::kDeadlineExceeded || error.code() == Code::kUnavailable;
  }

 private:
  void TellUnread(const ContainerId& id, const Error& why) const;

  Parts& parts_;
  std::mutex mutex_;  // what follows
  std::set<ContainerId> late_;
};

}  // namespace holdfast::runtime
