// SPDX-License-Identifier: Apache-2.0
// The eight types of a hostPath volume.
#pragma once

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// Checks, and for the …OrCreate types creates, what is at `path`.
Result<void> EnsureHostPath(const std::string& path, const std::string& type);

}  // namespace holdfast::agent
