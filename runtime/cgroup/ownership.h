// SPDX-License-Identifier: Apache-2.0
// The mark that tells our kubepods tree from a kubelet's or another agent's: the extended attribute
// trusted.holdfast on its root directory in every hierarchy. Where extended attributes are not
// possible (no privilege), nothing is marked and nothing refused. Thread-safe: no state.
#pragma once

#include <string>

#include "holdfast/base/result.h"
#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {

// kConflict when `name` exists below `parent` and bears another owner's mark, or bears none and has
// children. An unmarked directory without children is what a crash of ours may have left.
Result<void> CheckNotForeign(const Cgroup& parent, const std::string& name,
                             const std::string& owner);
Result<void> MarkAsOurs(const Cgroup& root, const std::string& owner);

}  // namespace holdfast::runtime
