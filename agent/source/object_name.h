// SPDX-License-Identifier: Apache-2.0
// What objects of manifests and of an API server are called. Pure.
#pragma once

#include <cstddef>

namespace holdfast::agent {

inline constexpr size_t kLongestName = 253;

// For any messages with metadata.

template <class Object>
bool HasSameName(const Object& a, const Object& b) {
  return a.metadata().name() == b.metadata().name() &&
         a.metadata().namespace_() == b.metadata().namespace_();
}

}  // namespace holdfast::agent
