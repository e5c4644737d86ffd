// SPDX-License-Identifier: Apache-2.0
// What a volume that could not be made is told with: a kubelet's words. Pure.
#pragma once

#include <string>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

inline Error SetUpFailed(const std::string& volume, Error error) {
  return std::move(error).Wrap(StrCat("MountVolume.SetUp failed for volume \"", volume, "\" "));
}

}  // namespace holdfast::agent
