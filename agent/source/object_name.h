// SPDX-License-Identifier: Apache-2.0
// What objects of manifests and of an API server are called. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "agent/objects/config_object.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

inline constexpr size_t kLongestName = 253;

// For any messages with metadata.

template <class Object>
bool HasSameName(const Object& a, const Object& b) {
  return a.metadata().name() == b.metadata().name() &&
         a.metadata().namespace_() == b.metadata().namespace_();
}

template <class Object>
std::string FullName(const Object& object) {
  return StrCat(object.metadata().namespace_(), "/", object.metadata().name());
}

// A ConfigMap is not a Secret of its name.

inline bool HasSameName(const ConfigObject& a, const ConfigObject& b) { return a.ref == b.ref; }

inline std::string FullName(const ConfigObject& object) {
  return StrCat(object.ref.object_namespace, "/", object.ref.name);
}

}  // namespace holdfast::agent
