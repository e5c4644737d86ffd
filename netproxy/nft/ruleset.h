// SPDX-License-Identifier: Apache-2.0
// nf_tables objects as data: what a table holds, in terms that can be printed in nft's syntax
// (print.cc), sent to the kernel (encode.cc) and compared. Only forms that `nft list ruleset`
// (1.0.6 and newer) prints again. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/base/ip_address.h"

namespace holdfast::netproxy::nft {

enum class Family : uint8_t { kIp, kIp6 };

// The parts that keys of sets and maps are made of.
enum class Field : uint8_t { kSourceAddress, kDestinationAddress, kL4Protocol, kDestinationPort };

// --- Statements of a rule, in the order of evaluation ---

// iifname / oifname; a name that ends in '*' is a prefix.
struct MatchInterface {
  bool incoming = true;
  std::string name;
  bool negate = false;
  bool operator==(const MatchInterface&) const = default;
};
struct MatchCidr {
  Field field = Field::kSourceAddress;  // an address
  Cidr cidr;
  bool negate = false;
  bool operator==(const MatchCidr&) const = default;
};
// The destination is an address of this node.
struct MatchLocalDestination {
  bool operator==(const MatchLocalDestination&) const = default;
};
// The route back to the source does not lead over the interface that the packet came by.
struct MatchSpoofedSource {
  bool operator==(const MatchSpoofedSource&) const = default;
};
// Neither part of a known connection nor related to one.
struct MatchCtNew {
  bool operator==(const MatchCtNew&) const = default;
};
// The connection's destination was translated (or, negated, was not).
struct MatchCtDnat {
  bool negate = false;
  bool operator==(const MatchCtDnat&) const = default;
};
struct MatchSet {
  std::vector<Field> key;
  std::string set;
  bool operator==(const MatchSet&) const = default;
};
// dnat to the address and port that the map gives; no entry: the rule does nothing.
struct DnatFromMap {
  std::vector<Field> key;
  std::string map;
  bool operator==(const DnatFromMap&) const = default;
};
struct Masquerade {
  bool operator==(const Masquerade&) const = default;
};
struct Jump {
  std::string chain;
  bool operator==(const Jump&) const = default;
};
struct Drop {
  bool operator==(const Drop&) const = default;
};

using Statement =
    std::variant<MatchInterface, MatchCidr, MatchLocalDestination, MatchSpoofedSource, MatchCtNew,
                 MatchCtDnat, MatchSet, DnatFromMap, Masquerade, Jump, Drop>;

struct Rule {
  std::vector<Statement> statements;
  std::string
      comment;  // says why, and tells the rule again when the kernel is read: unique in its chain
  bool operator==(const Rule&) const = default;
};

struct Hook {
  enum class Type : uint8_t { kFilter, kNat };
  enum class Point : uint8_t { kPrerouting, kInput, kOutput, kPostrouting };
  Type type = Type::kFilter;
  Point point = Point::kPrerouting;
  int32_t priority = 0;
  bool operator==(const Hook&) const = default;
};

struct Chain {
  std::string name;
  std::optional<Hook> hook;  // none: reached by jump only
  std::vector<Rule> rules;
  bool operator==(const Chain&) const = default;
};

// A set, or a map to (address, port). Elements are the kernel's bytes: each part of a key or value
// in network order, padded to four bytes.
struct Set {
  std::string name;
  std::vector<Field> key;
  bool to_endpoint = false;
  std::map<std::string, std::string> elements;  // key -> value ("" in a set)
  bool operator==(const Set&) const = default;
};

struct Table {
  Family family = Family::kIp;
  std::string name;
  std::vector<Set> sets;
  std::vector<Chain> chains;  // a chain stands before those that jump to it
  bool operator==(const Table&) const = default;
};

// Bytes of one part of an element.
std::string PackAddress(const IpAddress& address);
std::string PackPort(uint16_t port);
std::string PackProtocol(uint8_t protocol);

// In nft's syntax, without the surrounding command.
std::string ToString(Family family);  // "ip"
std::string ToString(Family family, const Statement& statement);
std::string ToString(Family family, const Rule& rule);
std::string ToString(const Hook& hook);  // "type nat hook output priority -100; policy accept;"
std::string TypeToString(
    Family family, const Set& set);  // "type inet_proto . inet_service : ipv4_addr . inet_service;"
std::string ElementToString(Family family, const Set& set, const std::string& key,
                            const std::string& value);

}  // namespace holdfast::netproxy::nft
