// SPDX-License-Identifier: Apache-2.0
// PodMemory as a versioned JSON text.
// A record of an unknown version or a damaged one is an error, never a guess.
#pragma once

#include <string>

#include "agent/pod/decide/types.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

std::string EncodeRecord(const PodMemory& memory);
Result<PodMemory> DecodeRecord(const std::string& text);

}  // namespace holdfast::agent
