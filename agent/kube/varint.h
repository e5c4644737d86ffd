// SPDX-License-Identifier: Apache-2.0
// Variable-length integers of protobuf's encoding, for what reads a few fields of a message without its types. Pure;
// thread-safe. Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::agent::kube {

// The integer that `bytes` begins with, which is taken off; nullopt where it does not end.
inline std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace holdfast::agent::kube
