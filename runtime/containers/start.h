// SPDX-License-Identifier: Apache-2.0
// Starting one container: from its spec to a running process with everything recorded.
// Thread-safe (state only in Parts and Sandboxes); the caller holds the pod's lock.
#pragma once

#include <expected>

#include "runtime/containers/parts.h"
#include "runtime/containers/sandboxes.h"

namespace holdfast::runtime {

struct Starting {
  TableEntry entry;
  StartedContainer started;
  bool log_is_late = false;  // the logger has not answered: LogRegistrations::NoteLate()
};

// Order: record, scratch directory, cgroup, plan, log pipes, launch, the logger's answer. On failure everything made is taken
// away again; that the logger is away or busy for long is none. `spec` must have passed CheckSpec.
std::expected<Starting, StartFailure> StartContainer(Parts& parts, Sandboxes& sandboxes,
                                                     const model::ContainerSpec& spec);

// Phase kCreate: ids that cannot be file names, no command, relative paths.
std::expected<void, StartFailure> CheckSpec(const model::ContainerSpec& spec);

}  // namespace holdfast::runtime
