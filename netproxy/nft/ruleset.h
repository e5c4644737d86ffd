// SPDX-License-Identifier: Apache-2.0
// nf_tables objects as data: what a table holds, in terms that can be printed in nft's syntax
// (print.cc), sent to the kernel (encode.cc) and compared. Only forms that `nft list ruleset`
// (1.0.6 and newer) prints again. Pure values.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/base/ip_address.h"

namespace holdfast::netproxy::nft {

enum class Family : uint8_t { kIp, kIp6 };

// The parts that keys of sets and maps are made of.
enum class Field : uint8_t {
  kSourceAddress,
  kDestinationAddress,
  kL4Protocol,
  kDestinationPort,
  kRandom,               // numgen random mod KeyPart::modulus
  kOriginalDestination,  // what the connection's first packet was sent to, before any translation;
  kOriginalPort,         // to be used after MatchHasPort (nft's own condition)
  kMark,                 // the packet's; only as a value
};

struct KeyPart {
  KeyPart(Field f) : field(f) {}  // NOLINT(google-explicit-constructor): {Field, Field} is a Key
  KeyPart(Field f, uint32_t mod) : field(f), modulus(mod) {}
  static KeyPart Masked(Field f, uint8_t prefix) {
    KeyPart part(f);
    part.prefix = prefix;
    return part;
  }
  Field field;
  uint32_t modulus = 0;           // kRandom
  std::optional<uint8_t> prefix;  // addresses: only that many bits, the others are zero
  bool operator==(const KeyPart&) const = default;
};
using Key = std::vector<KeyPart>;

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
  Key key;
  std::string set;
  bool operator==(const MatchSet&) const = default;
};
// The source is an address of this node.
struct MatchLocalSource {
  bool operator==(const MatchLocalSource&) const = default;
};
// The protocol, and a destination port other than 0.
struct MatchHasPort {
  uint8_t protocol = 6;
  bool operator==(const MatchHasPort&) const = default;
};
struct MatchProtocol {
  uint8_t protocol = 6;
  bool operator==(const MatchProtocol&) const = default;
};
// Any of these bits is set in the packet's mark.
struct MatchMark {
  uint32_t bits = 0;
  bool operator==(const MatchMark&) const = default;
};
struct SetMark {
  uint32_t bits = 0;
  bool set = true;  // false: cleared
  bool operator==(const SetMark&) const = default;
};
// The packet's mark becomes what the map gives; no entry: the rule does nothing.
struct SetMarkFromMap {
  Key key;
  std::string map;
  bool operator==(const SetMarkFromMap&) const = default;
};
// dnat to the address and port that the map gives; no entry: the rule does nothing.
struct DnatFromMap {
  Key key;
  std::string map;
  bool operator==(const DnatFromMap&) const = default;
};
// The same with the address in one map and the port in another; after MatchProtocol.
struct DnatFromTwoMaps {
  Key key;
  std::string address_map;
  std::string port_map;
  bool operator==(const DnatFromTwoMaps&) const = default;
};
// Goes where the verdict map says; no entry: the rule does nothing.
struct VerdictFromMap {
  Key key;
  std::string map;
  bool operator==(const VerdictFromMap&) const = default;
};
// Adds key : value to a dynamic map, or starts the time of the entry that is there anew.
struct UpdateMap {
  Key key;
  std::string map;
  std::chrono::seconds timeout{0};
  Field value = Field::kDestinationAddress;
  bool operator==(const UpdateMap&) const = default;
};
struct Masquerade {
  bool operator==(const Masquerade&) const = default;
};
struct Jump {
  std::string chain;
  bool operator==(const Jump&) const = default;
};
struct Goto {
  std::string chain;
  bool operator==(const Goto&) const = default;
};
struct Return {
  bool operator==(const Return&) const = default;
};
struct Drop {
  bool operator==(const Drop&) const = default;
};
// ICMP port unreachable.
struct Reject {
  bool operator==(const Reject&) const = default;
};

using Statement =
    std::variant<MatchInterface, MatchCidr, MatchLocalDestination, MatchSpoofedSource, MatchCtNew,
                 MatchCtDnat, MatchSet, MatchLocalSource, MatchHasPort, MatchProtocol, MatchMark,
                 SetMark, SetMarkFromMap, DnatFromMap, DnatFromTwoMaps, VerdictFromMap, UpdateMap,
                 Masquerade, Jump, Goto, Return, Drop, Reject>;

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

// Bytes of one key or value: each part in network order, padded to four bytes. A number from
// Field::kRandom or Field::kMark is in host order. No allocation.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::string_view bytes) { *this += bytes; }    // NOLINT(google-explicit-constructor)
  Bytes(const std::string& bytes) { *this += bytes; }  // NOLINT(google-explicit-constructor)

  Bytes& operator+=(std::string_view more) {
    const size_t room = data_.size() - size_;
    const size_t n = more.size() < room ? more.size() : room;
    std::copy_n(more.begin(), n, data_.begin() + size_);
    size_ = static_cast<uint8_t>(size_ + n);
    return *this;
  }
  std::string_view view() const { return {data_.data(), size_}; }
  auto operator<=>(const Bytes& other) const { return view() <=> other.view(); }
  bool operator==(const Bytes& other) const { return view() == other.view(); }

 private:
  std::array<char, 47> data_{};
  uint8_t size_ = 0;
};

// `value` is empty in a set; in a verdict map it is the name of the chain.
struct Element {
  Bytes key;
  Bytes value;
  std::string chain;  // of a verdict map: jump there
  bool operator==(const Element&) const = default;
};

// What a map gives; kNothing is a set.
enum class MapTo : uint8_t { kNothing, kEndpoint, kAddress, kPort, kVerdict, kMark };

// A set or a map. An element that is a verdict makes the kernel look through the whole table with
// each change, a plain one does not: verdict maps are for what is few.
struct Set {
  std::string name;
  Key key;
  MapTo to = MapTo::kNothing;
  std::map<std::string, std::string> elements;  // key -> value ("" in a set)
  uint32_t size = 0;                // room for so many elements; 0: grows by itself (and is slower)
  std::chrono::seconds timeout{0};  // not 0: filled by rules (UpdateMap), elements end
  bool operator==(const Set&) const = default;
};

struct Table {
  Family family = Family::kIp;
  std::string name;
  std::vector<Set> sets;
  std::vector<Chain> chains;  // in any order
  bool operator==(const Table&) const = default;
};

// 127.0.0.0/8 or ::1.
Cidr Loopback(Family family);
// Packets with the mark lose it and get the address of the node as their source.
Rule MasqueradeMarked(uint32_t mark);

// Bytes of one part of an element.
std::string PackAddress(const IpAddress& address);
std::string PackPort(uint16_t port);
std::string PackProtocol(uint8_t protocol);
std::string PackNumber(uint32_t number);

// The parts of a map's values.
Key ValueOf(MapTo to);
// How many bytes a part of a key takes.
uint32_t SizeOf(Family family, Field field);

// In nft's syntax, without the surrounding command.
std::string ToString(Family family);  // "ip"
std::string ToString(Family family, const Statement& statement);
std::string ToString(Family family, const Rule& rule);
std::string ToString(const Hook& hook);  // "type nat hook output priority -100; policy accept;"
// "type inet_proto . inet_service : ipv4_addr . inet_service;"
std::string TypeToString(Family family, const Set& set);
std::string ElementToString(Family family, const Set& set, const Element& element);

}  // namespace holdfast::netproxy::nft
