// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/frames.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace holdfast::netproxy::announce {
namespace {

constexpr uint16_t kArp = 0x0806;
constexpr uint16_t kIpv6 = 0x86dd;
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;
constexpr uint8_t kIcmpv6 = 58;
constexpr uint8_t kSolicitation = 135;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kSourceMac = 1;  // options of RFC 4861
constexpr uint8_t kTargetMac = 2;
constexpr uint8_t kExperiment = 253;
constexpr uint8_t kSolicited = 0x40;  // flags of an advertisement
constexpr uint8_t kOverride = 0x20;
constexpr size_t kEthernet = 14;
constexpr size_t kArpSize = kEthernet + 28;
constexpr size_t kLeastFrame = 60;  // without the check sum
constexpr size_t kIcmpAt = kEthernet + 40;
constexpr size_t kOptionsAt = kIcmpAt + 24;

// Whose mark it is, and its version.
constexpr std::string_view kMark = "holdfast\x01";

void Put16(Frame& out, uint16_t value) {
  out.push_back(static_cast<uint8_t>(value >> 8));
  out.push_back(static_cast<uint8_t>(value & 0xff));
}

template <typename Bytes>
void Put(Frame& out, const Bytes& bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void PutIp(Frame& out, const IpAddress& ip) {
  out.insert(out.end(), ip.bytes.begin(),
             ip.bytes.begin() + static_cast<std::ptrdiff_t>(ip.size()));
}

uint16_t Get16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

MacAddress GetMac(std::span<const uint8_t> bytes, size_t at) {
  MacAddress mac;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), mac.size(), mac.begin());
  return mac;
}

// The priority behind the mark that `bytes` begin with.
std::optional<uint8_t> GetMark(std::span<const uint8_t> bytes) {
  if (bytes.size() <= kMark.size()) return std::nullopt;
  const bool marked = std::equal(kMark.begin(), kMark.end(), bytes.begin(),
                                 [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
  if (!marked) return std::nullopt;
  return bytes[kMark.size()];
}

void PutMark(Frame& out, uint8_t priority) {
  Put(out, kMark);
  out.push_back(priority);
}

Frame Ethernet(const MacAddress& to, const MacAddress& from, uint16_t type) {
  Frame out;
  Put(out, to);
  Put(out, from);
  Put16(out, type);
  return out;
}

// --- ARP ---

struct ArpMessage {
  uint16_t operation = 0;
  MacAddress sender_mac{};
  IpAddress sender;
  MacAddress target_mac{};
  IpAddress target;
};

Frame ArpFrame(const MacAddress& to, const ArpMessage& message,
               const std::optional<uint8_t>& priority) {
  Frame out = Ethernet(to, message.sender_mac, kArp);
  Put(out, std::array<uint8_t, 6>{0, 1, 8, 0, 6, 4});  // Ethernet, IPv4, their address sizes
  Put16(out, message.operation);
  Put(out, message.sender_mac);
  PutIp(out, message.sender);
  Put(out, message.target_mac);
  PutIp(out, message.target);
  if (priority) PutMark(out, *priority);
  out.resize(std::max(out.size(), kLeastFrame));
  return out;
}

Heard ParseArp(std::span<const uint8_t> frame) {
  Heard heard;
  constexpr std::array<uint8_t, 6> kKind = {0, 1, 8, 0, 6, 4};
  if (frame.size() < kArpSize ||
      !std::equal(kKind.begin(), kKind.end(), frame.begin() + kEthernet)) {
    return heard;
  }
  const uint16_t operation = Get16(frame, 20);
  const MacAddress mac = GetMac(frame, 22);
  const IpAddress sender = IpAddress::FromBytes(false, &frame[28]);
  const IpAddress target = IpAddress::FromBytes(false, &frame[38]);
  if (operation != kRequest && operation != kReply) return heard;
  if (!sender.IsUnspecified()) {
    heard.claim = Claim{sender, mac, GetMark(frame.subspan(kArpSize))};
  }
  if (operation == kRequest && sender != target && !target.IsUnspecified()) {
    heard.question = Question{target, mac, sender};
  }
  return heard;
}

// --- Neighbour discovery ---

IpAddress AllNodes() {
  IpAddress out;
  out.v6 = true;
  out.bytes[0] = 0xff;
  out.bytes[1] = 0x02;
  out.bytes[15] = 1;
  return out;
}

// RFC 2464, 7.
MacAddress MulticastMac(const IpAddress& ip) {
  return {0x33, 0x33, ip.bytes[12], ip.bytes[13], ip.bytes[14], ip.bytes[15]};
}

// Of the pseudo header and the message of a whole frame; 0 where a right sum is in it already.
uint16_t CheckSum(std::span<const uint8_t> frame) {
  uint32_t sum = kIcmpv6 + static_cast<uint32_t>(frame.size() - kIcmpAt);
  for (size_t i = kEthernet + 8; i + 1 < frame.size(); i += 2) sum += Get16(frame, i);
  if (frame.size() % 2 != 0) sum += static_cast<uint32_t>(frame.back() << 8);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum & 0xffff);
}

Frame NeighbourFrame(const MacAddress& to_mac, const IpAddress& to, const Speaker& speaker,
                     std::span<const uint8_t> message) {
  Frame out = Ethernet(to_mac, speaker.mac, kIpv6);
  Put(out, std::array<uint8_t, 4>{0x60, 0, 0, 0});
  Put16(out, static_cast<uint16_t>(message.size()));
  out.push_back(kIcmpv6);
  out.push_back(255);  // a router would have counted down, so it is of this segment
  PutIp(out, speaker.link_local);
  PutIp(out, to);
  Put(out, message);
  const uint16_t sum = CheckSum(out);
  out[kIcmpAt + 2] = static_cast<uint8_t>(sum >> 8);
  out[kIcmpAt + 3] = static_cast<uint8_t>(sum & 0xff);
  return out;
}

Frame Advertisement(const IpAddress& address, uint8_t flags, const Speaker& speaker) {
  Frame out = {kAdvertisement, 0, 0, 0, flags, 0, 0, 0};
  PutIp(out, address);
  Put(out, std::array<uint8_t, 2>{kTargetMac, 1});
  Put(out, speaker.mac);
  Put(out, std::array<uint8_t, 2>{kExperiment, 2});
  PutMark(out, speaker.priority);
  out.resize(24 + 8 + 16);
  return out;
}

struct Options {
  std::optional<MacAddress> source_mac;
  std::optional<MacAddress> target_mac;
  std::optional<uint8_t> priority;
};

std::optional<Options> ParseOptions(std::span<const uint8_t> bytes) {
  Options out;
  while (!bytes.empty()) {
    const size_t size = bytes.size() < 2 ? 0 : bytes[1] * size_t{8};
    if (size == 0 || size > bytes.size()) return std::nullopt;
    if (bytes[0] == kSourceMac) out.source_mac = GetMac(bytes, 2);
    if (bytes[0] == kTargetMac) out.target_mac = GetMac(bytes, 2);
    if (bytes[0] == kExperiment) out.priority = GetMark(bytes.subspan(2, size - 2));
    bytes = bytes.subspan(size);
  }
  return out;
}

Heard ParseNeighbour(std::span<const uint8_t> frame) {
  Heard heard;
  if (frame.size() < kOptionsAt) return heard;
  const size_t size = kIcmpAt + Get16(frame, kEthernet + 4);
  if (frame[kEthernet + 6] != kIcmpv6 || frame[kEthernet + 7] != 255 || size < kOptionsAt ||
      size > frame.size()) {
    return heard;
  }
  frame = frame.first(size);  // without the padding
  const uint8_t type = frame[kIcmpAt];
  if (CheckSum(frame) != 0 || frame[kIcmpAt + 1] != 0) return heard;
  const auto options = ParseOptions(frame.subspan(kOptionsAt));
  if (!options) return heard;
  const IpAddress source = IpAddress::FromBytes(true, &frame[kEthernet + 8]);
  const IpAddress target = IpAddress::FromBytes(true, &frame[kIcmpAt + 8]);
  // Nobody has these (RFC 4861, 7.1).
  if (target.IsUnspecified() || target.bytes[0] == 0xff) return heard;
  const MacAddress from = GetMac(frame, 6);
  if (type == kAdvertisement) {
    heard.claim = Claim{target, options->target_mac.value_or(from), options->priority};
  } else if (type == kSolicitation) {
    const MacAddress mac = options->source_mac.value_or(from);
    heard.question = Question{target, mac, source};
    if (!source.IsUnspecified()) heard.claim = Claim{source, mac, std::nullopt};
  }
  return heard;
}

}  // namespace

Heard Parse(std::span<const uint8_t> frame) {
  if (frame.size() < kEthernet) return {};
  const uint16_t type = Get16(frame, 12);
  if (type == kArp) return ParseArp(frame);
  if (type == kIpv6) return ParseNeighbour(frame);
  return {};
}

Frame Announcement(const IpAddress& address, const Speaker& speaker) {
  if (address.v6) {
    const IpAddress all = AllNodes();
    return NeighbourFrame(MulticastMac(all), all, speaker,
                          Advertisement(address, kOverride, speaker));
  }
  return ArpFrame(kEverybody, {kRequest, speaker.mac, address, {}, address}, speaker.priority);
}

Frame Answer(const Question& question, const Speaker& speaker) {
  const IpAddress& address = question.address;
  if (!address.v6) {
    const ArpMessage reply = {kReply, speaker.mac, address, question.mac, question.asker};
    return ArpFrame(question.mac, reply, speaker.priority);
  }
  // Who has no address yet cannot be told but by telling everybody (RFC 4861, 7.2.4).
  if (question.asker.IsUnspecified()) return Announcement(address, speaker);
  return NeighbourFrame(question.mac, question.asker, speaker,
                        Advertisement(address, kSolicited | kOverride, speaker));
}

Frame Ask(const IpAddress& address, const Speaker& speaker, const std::optional<MacAddress>& whom) {
  if (!address.v6) {
    const ArpMessage probe = {kRequest, speaker.mac, {}, {}, address};
    return ArpFrame(whom.value_or(kEverybody), probe, std::nullopt);
  }
  Frame message = {kSolicitation, 0, 0, 0, 0, 0, 0, 0};
  PutIp(message, address);
  Put(message, std::array<uint8_t, 2>{kSourceMac, 1});
  Put(message, speaker.mac);
  const IpAddress group = SolicitedNode(address);
  return NeighbourFrame(whom.value_or(MulticastMac(group)), group, speaker, message);
}

IpAddress SolicitedNode(const IpAddress& address) {
  IpAddress out = AllNodes();
  out.bytes[11] = 1;
  out.bytes[12] = 0xff;
  std::copy_n(address.bytes.begin() + 13, 3, out.bytes.begin() + 13);
  return out;
}

}  // namespace holdfast::netproxy::announce
