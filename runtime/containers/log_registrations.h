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
  // Asks the logger again about those; waits for it.
  void EnsureLate();

 private:
  // Under the pod's lock. False: to be tried again.
  bool TryLate(const ContainerId& id);

  Parts& parts_;
  std::mutex mutex_;  // what follows
  std::set<ContainerId> late_;
};

}  // namespace holdfast::runtime
