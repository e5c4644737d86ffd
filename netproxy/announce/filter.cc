// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/filter.h"

#include <algorithm>

namespace holdfast::netproxy::announce {
namespace {

constexpr uint32_t kWholeFrame = 0xffff;
constexpr uint32_t kArpSender = 28;  // bytes from the start of the frame
constexpr uint32_t kArpTarget = 38;
constexpr uint32_t kNextHeader = 20;
constexpr uint32_t kIpSource = 22;
constexpr uint32_t kIcmpType = 54;
constexpr uint32_t kNeighbourTarget = 62;

uint32_t Word(const IpAddress& ip, size_t word) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | ip.bytes[word * 4 + i];
  return value;
}

uint32_t MaskWord(uint8_t prefix, size_t word) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | Cidr::MaskByte(prefix, word * 4 + i);
  return value;
}

// Accepts the frame when the address at `at` is in the range; else goes on behind itself.
void AcceptIfIn(std::vector<sock_filter>& out, const Cidr& range, uint32_t at) {
  const size_t words = (range.prefix + 31u) / 32;
  for (size_t word = 0; word < words; ++word) {
    const auto rest = static_cast<uint8_t>((words - word - 1) * 3 + 1);  // up to the end
    out.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at + static_cast<uint32_t>(word) * 4));
    out.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MaskWord(range.prefix, word)));
    out.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, Word(range.network, word), 0, rest));
  }
  out.push_back(BPF_STMT(BPF_RET | BPF_K, kWholeFrame));
}

void AcceptIfInAny(std::vector<sock_filter>& out, std::span<const Cidr> ranges, bool v6,
                   uint32_t at) {
  for (const Cidr& range : ranges) {
    if (range.network.v6 == v6) AcceptIfIn(out, range, at);
  }
}

}  // namespace

std::vector<sock_filter> ArpFilter(std::span<const Cidr> ranges) {
  std::vector<sock_filter> out;
  AcceptIfInAny(out, ranges, false, kArpTarget);
  AcceptIfInAny(out, ranges, false, kArpSender);
  out.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  return out;
}

std::vector<sock_filter> NeighbourFilter(std::span<const Cidr> ranges) {
  std::vector<sock_filter> out = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kNextHeader),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 58, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kIcmpType),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 135, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 136, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  AcceptIfInAny(out, ranges, true, kNeighbourTarget);
  AcceptIfInAny(out, ranges, true, kIpSource);
  out.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  return out;
}

}  // namespace holdfast::netproxy::announce
