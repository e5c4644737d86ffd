// SPDX-License-Identifier: Apache-2.0
// Where a wanted pod comes from. Each origin speaks for its own pods only.
#pragma once

#include <cstdint>

namespace holdfast::agent {

// As the values "file", "http" and "api" of the annotation kubernetes.io/config.source; kept in the
// pod's record, never read from the annotation, which a user can write.
enum class PodOrigin : uint8_t { kFile, kHttp, kApi };

}  // namespace holdfast::agent
