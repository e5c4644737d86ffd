// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "holdfast/base/overloaded.h"
#include "holdfast/base/strings.h"
#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

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
    case Field::kRandom:
      return "numgen random mod ";
    case Field::kOriginalDestination:
      return StrCat("ct original ", ToString(family), " daddr");
    case Field::kOriginalPort:
      return "ct original proto-dst";
    case Field::kMark:
      return "meta mark";
  }
  return "";
}

std::string MaskToString(Family family, uint8_t prefix) {
  IpAddress mask;
  mask.v6 = family == Family::kIp6;
  for (size_t i = 0; i < mask.size(); ++i) mask.bytes[i] = Cidr::MaskByte(prefix, i);
  return mask.ToString();
}

std::string KeyToString(Family family, const Key& key) {
  std::string out;
  for (const KeyPart& part : key) {
    if (!out.empty()) out += " . ";
    out += FieldToString(family, part.field);
    if (part.field == Field::kRandom) out += StrCat(part.modulus);
    if (part.prefix) out += StrCat(" & ", MaskToString(family, *part.prefix));
  }
  return out;
}

std::string ProtocolName(uint8_t protocol) {
  switch (protocol) {
    case 6:
      return "tcp";
    case 17:
      return "udp";
    case 132:
      return "sctp";
    default:
      return StrCat(static_cast<unsigned>(protocol));
  }
}

const char* TypeName(Family family, Field field) {
  switch (field) {
    case Field::kSourceAddress:
    case Field::kDestinationAddress:
    case Field::kOriginalDestination:
      return family == Family::kIp6 ? "ipv6_addr" : "ipv4_addr";
    case Field::kL4Protocol:
      return "inet_proto";
    case Field::kDestinationPort:
    case Field::kOriginalPort:
      return "inet_service";
    case Field::kRandom:
      return "integer";
    case Field::kMark:
      return "mark";
  }
  return "";
}

// Takes one part off the front of `bytes`.
std::string UnpackPart(Family family, Field field, std::string_view& bytes) {
  const size_t size = SizeOf(family, field);
  if (bytes.size() < size) return "?";
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  const auto byte = [&](size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(part[i]));
  };
  switch (field) {
    case Field::kSourceAddress:
    case Field::kDestinationAddress:
    case Field::kOriginalDestination:
      return IpAddress::FromBytes(family == Family::kIp6, part.data()).ToString();
    case Field::kDestinationPort:
    case Field::kOriginalPort:
      return StrCat(byte(0) << 8 | byte(1));
    case Field::kL4Protocol:
      return ProtocolName(static_cast<uint8_t>(byte(0)));
    case Field::kRandom:
    case Field::kMark:
      break;
  }
  uint32_t number = 0;
  std::memcpy(&number, part.data(), sizeof number);
  return StrCat(number);
}

std::string UnpackAll(Family family, const Key& key, std::string_view bytes) {
  std::string out;
  for (const KeyPart& part : key) {
    if (!out.empty()) out += " . ";
    out += UnpackPart(family, part.field, bytes);
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

std::string PackNumber(uint32_t number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

Key ValueOf(MapTo to) {
  switch (to) {
    case MapTo::kEndpoint:
      return {Field::kDestinationAddress, Field::kDestinationPort};
    case MapTo::kAddress:
      return {Field::kDestinationAddress};
    case MapTo::kPort:
      return {Field::kDestinationPort};
    case MapTo::kMark:
      return {Field::kMark};
    case MapTo::kNothing:
    case MapTo::kVerdict:
      break;
  }
  return {};
}

uint32_t SizeOf(Family family, Field field) {
  const bool address = field == Field::kSourceAddress || field == Field::kDestinationAddress ||
                       field == Field::kOriginalDestination;
  return address && family == Family::kIp6 ? 16 : 4;
}

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
          [&](const MatchLocalSource&) -> std::string { return "fib saddr type local"; },
          [&](const MatchHasPort& m) { return ProtocolName(m.protocol) + " dport != 0"; },
          [&](const MatchProtocol& m) { return "meta l4proto " + ProtocolName(m.protocol); },
          [&](const MatchMark& m) { return StrCat("meta mark & ", m.bits, " != 0"); },
          [&](const SetMark& m) {
            return m.set ? StrCat("meta mark set meta mark | ", m.bits)
                         : StrCat("meta mark set meta mark & ", ~m.bits);
          },
          [&](const SetMarkFromMap& m) {
            return StrCat("meta mark set ", KeyToString(family, m.key), " map @", m.map);
          },
          [&](const DnatFromMap& m) {
            return StrCat("dnat ", ToString(family), " to ", KeyToString(family, m.key), " map @",
                          m.map);
          },
          [&](const DnatFromTwoMaps& m) {
            const std::string key = KeyToString(family, m.key);
            return StrCat("dnat ", ToString(family), " to ", key, " map @", m.address_map, " : ",
                          key, " map @", m.port_map);
          },
          [&](const VerdictFromMap& m) {
            return StrCat(KeyToString(family, m.key), " vmap @", m.map);
          },
          [&](const UpdateMap& m) {
            return StrCat("update @", m.map, " { ", KeyToString(family, m.key), " timeout ",
                          m.timeout.count(), "s : ", FieldToString(family, m.value), " }");
          },
          [&](const Masquerade&) -> std::string { return "masquerade fully-random"; },
          [&](const Jump& m) { return StrCat("jump ", m.chain); },
          [&](const Goto& m) { return StrCat("goto ", m.chain); },
          [&](const Return&) -> std::string { return "return"; },
          [&](const Drop&) -> std::string { return "drop"; },
          [&](const Reject&) -> std::string { return "reject"; },
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

// A random number is no data type of nft's: such a set is described by expressions.
std::string TypeToString(Family family, const Set& set) {
  const bool by_expression = NeedsTypeof(set);
  const auto names = [&](const Key& key) {
    if (by_expression) return KeyToString(family, key);
    std::string out;
    for (const KeyPart& part : key) {
      out += StrCat(out.empty() ? "" : " . ", TypeName(family, part.field));
    }
    return out;
  };
  std::string out = StrCat(by_expression ? "typeof " : "type ", names(set.key));
  if (set.to == MapTo::kVerdict) {
    out += " : verdict";
  } else if (set.to != MapTo::kNothing) {
    out += " : " + names(ValueOf(set.to));
  }
  out += ";";
  if (set.size != 0) out += StrCat(" size ", set.size, ";");
  if (set.timeout.count() != 0) {
    out += StrCat(" flags dynamic,timeout; timeout ", set.timeout.count(), "s;");
  }
  return out;
}

std::string ElementToString(Family family, const Set& set, const Element& element) {
  const std::string key = UnpackAll(family, set.key, element.key.view());
  if (set.to == MapTo::kNothing) return key;
  if (set.to == MapTo::kVerdict) return StrCat(key, " : jump ", element.chain);
  return StrCat(key, " : ", UnpackAll(family, ValueOf(set.to), element.value.view()));
}

}  // namespace holdfast::netproxy::nft
