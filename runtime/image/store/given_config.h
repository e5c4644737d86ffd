// SPDX-License-Identifier: Apache-2.0
// The config that a person gives for a plain root tar, before it is written into an image. Pure.
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::runtime {

// kInvalidArgument for what no container could start with: an environment entry without a name and
// "=", a user that is neither NAME nor NAME:GROUP, a working directory that is not absolute.
Result<void> CheckGivenConfig(const ImageConfig& config);

}  // namespace holdfast::runtime
