// SPDX-License-Identifier: Apache-2.0
// Events of a watch as an API server writes them in protobuf: each behind its length.
#pragma once

#include <string>

#include "k8s/meta/v1/status.pb.h"

namespace holdfast::agent {

// Four bytes, big-endian.
inline std::string Length(size_t size) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift);
  return out;
}

inline std::string Framed(const std::string& type, const std::string& object) {
  k8s::io::apimachinery::pkg::apis::meta::v1::WatchEvent event;
  event.set_type(type);
  event.mutable_object()->set_raw(object);
  const std::string bytes = event.SerializeAsString();
  return Length(bytes.size()) + bytes;
}

}  // namespace holdfast::agent
