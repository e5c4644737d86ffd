// SPDX-License-Identifier: Apache-2.0
// What a client of SPDY/3.1 sends, as bytes.
#pragma once

#include <cstdint>
#include <string>

#include "agent/api/kubelet/streams/wire/spdy_frames.h"

namespace holdfast::agent::streams {

// The most significant byte first.
inline std::string Number(uint32_t value, int bytes = 4) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

inline std::string SynStream(SpdyHeaderWriter& headers, uint32_t stream, const SpdyHeaders& named,
                             bool last = false) {
  const std::string block = *headers.Write(named);
  const std::string slots(2, '\0');  // priority and credential
  return Number(0x80030001) + (last ? '\1' : '\0') +
         Number(static_cast<uint32_t>(block.size() + 10), 3) + Number(stream) + Number(0) + slots +
         block;
}

}  // namespace holdfast::agent::streams
