// SPDX-License-Identifier: Apache-2.0
// What an object of a manifest is called; for any message with metadata. Pure.
#pragma once

namespace holdfast::agent {

template <class Object>
bool HasSameName(const Object& a, const Object& b) {
  return a.metadata().name() == b.metadata().name() &&
         a.metadata().namespace_() == b.metadata().namespace_();
}

}  // namespace holdfast::agent
