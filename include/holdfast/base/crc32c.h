// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli polynomial, reflected), as in iSCSI: RFC 3720 appendix B.4. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast {
namespace crc32c_detail {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}
inline constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace crc32c_detail

// `before`: of what comes before these bytes, which are summed as if they followed it.
inline uint32_t Crc32c(std::string_view bytes, uint32_t before = 0) {
  uint32_t crc = ~before;
  for (const char c : bytes) {
    crc = crc >> 8 ^ crc32c_detail::kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  }
  return ~crc;
}

}  // namespace holdfast
