// SPDX-License-Identifier: Apache-2.0
// Auditor: finds what of the runtime's belongs to no live pod, and takes it away on request.
// Thread-safe. A pod that a call is changing right now, or that was ensured within the last minute,
// is left out: the caller's list of live pods may be older than it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/containers/parts.h"
#include "runtime/containers/sandboxes.h"

namespace holdfast::runtime {

class Auditor {
 public:
  Auditor(Parts& parts, Sandboxes& sandboxes) : parts_(parts), sandboxes_(sandboxes) {}
  // Kinds: "sandbox", "container", "cgroup", "namespace", "process", "log", "directory", "record".
  Result<std::vector<Leftover>> Run(const std::vector<PodUid>& live, bool repair);

 private:
  class Pass;
  Parts& parts_;
  Sandboxes& sandboxes_;
};

}  // namespace holdfast::runtime
