// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "holdfast/base/strings.h"
#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

std::string FieldToString(Family family, Field field) {
  switch (field) {
    case Field::kSourceAddress:
      return ToString(family) + " saddr";
    case Field::kDestinationAddress:
      return ToString(family) + " daddr";
    case Field::kL4Protocol:
      return "meta l4proto";
    case Field::kDestinationPort:
      return "th dport";
  }
  return "";
}

std::string KeyToString(Family family, const std::vector<Field>& key) {
  std::string out;
  for (Field field : key) {
    if (!out.empty()) out += " . ";
    out += FieldToString(family, field);
  }
  return out;
}

const char* TypeName(Family family, Field field) {
  switch (field) {
    case Field::kSourceAddress:
    case Field::kDestinationAddress:
      return family == Family::kIp6 ? "ipv6_addr" : "ipv4_addr";
    case Field::kL4Protocol:
      return "inet_proto";
    case Field::kDestinationPort:
      return "inet_service";
  }
  return "";
}

// Takes one part off the front of `bytes`.
std::string UnpackPart(Family family, Field field, std::string_view& bytes) {
  const bool address = field == Field::kSourceAddress || field == Field::kDestinationAddress;
  const size_t size = address && family == Family::kIp6 ? 16 : 4;
  if (bytes.size() < size) return "?";
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  if (address) return IpAddress::FromBytes(family == Family::kIp6, part.data()).ToString();
  const auto byte = [&](size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(part[i]));
  };
  if (field == Field::kDestinationPort) return StrCat(byte(0) << 8 | byte(1));
  switch (byte(0)) {
    case 6:
      return "tcp";
    case 17:
      return "udp";
    case 132:
      return "sctp";
    default:
      return StrCat(byte(0));
  }
}

std::string UnpackAll(Family family, const std::vector<Field>& fields, std::string_view bytes) {
  std::string out;
  for (Field field : fields) {
    if (!out.empty()) out += " . ";
    out += UnpackPart(family, field, bytes);
  }
  return out;
}

}  // namespace

std::string PackAddress(const IpAddress& address) {
  return std::string(reinterpret_cast<const char*>(address.bytes.data()), address.size());
}
std::string PackPort(uint16_t port) {
  return {static_cast<char>(port >> 8), static_cast<char>(port & 0xff), 0, 0};
}
std::string PackProtocol(uint8_t protocol) { return {static_cast<char>(protocol), 0, 0, 0}; }

std::string ToString(Family family) { return family == Family::kIp6 ? "ip6" : "ip"; }

std::string ToString(Family family, const Statement& statement) {
  return std::visit(
      Overloaded{
          [&](const MatchInterface& m) {
            return StrCat(m.incoming ? "iifname" : "oifname", m.negate ? " != \"" : " \"", m.name,
                          "\"");
          },
          [&](const MatchCidr& m) {
            return StrCat(FieldToString(family, m.field), m.negate ? " != " : " ",
                          m.cidr.ToString());
          },
          [&](const MatchLocalDestination&) -> std::string { return "fib daddr type local"; },
          [&](const MatchSpoofedSource&) -> std::string { return "fib saddr . iif oif 0"; },
          [&](const MatchCtNew&) -> std::string {
            return "ct state & (established | related) == 0";
          },
          [&](const MatchCtDnat& m) -> std::string {
            return m.negate ? "ct status & dnat == 0" : "ct status & dnat != 0";
          },
          [&](const MatchSet& m) { return StrCat(KeyToString(family, m.key), " @", m.set); },
          [&](const DnatFromMap& m) {
            return StrCat("dnat ", ToString(family), " to ", KeyToString(family, m.key), " map @",
                          m.map);
          },
          [&](const Masquerade&) -> std::string { return "masquerade fully-random"; },
          [&](const Jump& m) { return StrCat("jump ", m.chain); },
          [&](const Drop&) -> std::string { return "drop"; },
      },
      statement);
}

std::string ToString(Family family, const Rule& rule) {
  std::string out;
  for (const Statement& s : rule.statements) out += ToString(family, s) + " ";
  return StrCat(out, "comment \"", rule.comment, "\"");
}

std::string ToString(const Hook& hook) {
  static constexpr const char* kPoints[] = {"prerouting", "input", "output", "postrouting"};
  return StrCat("type ", hook.type == Hook::Type::kNat ? "nat" : "filter", " hook ",
                kPoints[static_cast<size_t>(hook.point)], " priority ", hook.priority,
                "; policy accept;");
}

std::string TypeToString(Family family, const Set& set) {
  std::string out;
  for (Field field : set.key) {
    out += out.empty() ? "type " : " . ";
    out += TypeName(family, field);
  }
  if (set.to_endpoint)
    out += StrCat(" : ", TypeName(family, Field::kDestinationAddress), " . inet_service");
  return out + ";";
}

std::string ElementToString(Family family, const Set& set, const std::string& key,
                            const std::string& value) {
  std::string out = UnpackAll(family, set.key, key);
  if (set.to_endpoint) {
    out += " : " + UnpackAll(family, {Field::kDestinationAddress, Field::kDestinationPort}, value);
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
