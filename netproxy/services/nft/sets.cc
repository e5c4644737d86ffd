// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/sets.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::nft {
namespace {

using Kind = SetId::Kind;
using Domain = SetId::Domain;
using Side = SetId::Side;

constexpr uint32_t kMinSize = 256;
constexpr uint32_t kMinEndpoints = 1024;
constexpr uint32_t kClients = 131072;  // that a service with affinity remembers at most

std::string Prefix(Domain domain, Side side) {
  return StrCat(domain == Domain::kNodePort ? "port-" : "", side == Side::kInside    ? "inside-"
                                                            : side == Side::kOutside ? "outside-"
                                                                                     : "");
}

// Letters that nft's names may not hold are written as _ and two hex digits; "ns/name:port" is
// "ns/name.port", and no two services share a name.
std::string Plain(const std::string& service) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : service) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '/') {
      out.push_back(c);
    } else if (c == ':') {
      out.push_back('.');
    } else {
      out += {'_', kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
    }
  }
  return out;
}

std::string ListName(uint32_t list) { return list == 0 ? "cluster-" : "local-"; }

}  // namespace

Key FrontendKey(Domain domain) {
  if (domain == Domain::kNodePort) return {Field::kL4Protocol, Field::kDestinationPort};
  return {Field::kDestinationAddress, Field::kL4Protocol, Field::kDestinationPort};
}

Key With(Key key, KeyPart part) {
  key.push_back(part);
  return key;
}

std::string MaskName(uint8_t mask) {
  if (mask == kEverybody) return "snat-all";
  std::string out = "snat";
  if (mask & model::kFromPod) out += "-pod";
  if (mask & model::kFromNode) out += "-node";
  if (mask & model::kFromOutside) out += "-outside";
  return out;
}

Key KeyOf(const SetId& id) {
  switch (id.kind) {
    case Kind::kEndpoints:
      return With(FrontendKey(id.domain), {Field::kRandom, kSlots});
    case Kind::kHairpin:
      return {Field::kSourceAddress, Field::kDestinationAddress};
    case Kind::kClusterIps:
      return {Field::kDestinationAddress};
    case Kind::kAllowed:
      return With(FrontendKey(id.domain), Field::kSourceAddress);
    case Kind::kMembers:
      return ValueOf(MapTo::kEndpoint);
    case Kind::kRestricted:
    case Kind::kServe:
    case Kind::kRefuse:
    case Kind::kDiscard:
    case Kind::kSticky:
    case Kind::kRecord:
      break;
  }
  return FrontendKey(id.domain);
}

std::string NameOf(const SetId& id) {
  const std::string prefix = Prefix(id.domain, id.side);
  switch (id.kind) {
    case Kind::kEndpoints:
      return prefix + "endpoints";
    case Kind::kHairpin:
      return "hairpin";
    case Kind::kClusterIps:
      return "cluster-ips";
    case Kind::kAllowed:
      return StrCat("allowed-", id.count);
    case Kind::kRestricted:
      return "restricted";
    case Kind::kServe:
      return StrCat(prefix, "serve-", id.count,
                    id.mask == 0 ? std::string() : "-" + MaskName(id.mask));
    case Kind::kRefuse:
      return prefix + "refuse";
    case Kind::kDiscard:
      return prefix + "discard";
    case Kind::kSticky:
      return prefix + "sticky";
    case Kind::kRecord:
      return prefix + "record";
    case Kind::kMembers:
      return StrCat("members-", ListName(id.count), Plain(id.service));
  }
  return "";
}

std::string StickyChain(const std::string& service, uint32_t list, uint8_t mask) {
  return StrCat("sticky-", ListName(list), Plain(service),
                mask == 0 ? std::string() : "." + MaskName(mask));
}

std::string RecordChain(const std::string& service, uint32_t list) {
  return StrCat("record-", ListName(list), Plain(service));
}

Set AffinityMap(const SetId& members, bool of_ports) {
  Set set;
  set.name = StrCat(of_ports ? "affinity-port-" : "affinity-", ListName(members.count),
                    Plain(members.service));
  set.key = {Field::kSourceAddress};
  set.to = of_ports ? MapTo::kPort : MapTo::kAddress;
  set.size = kClients;
  set.timeout = std::chrono::seconds(members.seconds);
  return set;
}

std::map<SetId, uint32_t> FixedSets() {
  std::map<SetId, uint32_t> out;
  for (const Domain domain : {Domain::kAddress, Domain::kNodePort}) {
    for (const Side side : {Side::kBoth, Side::kOutside}) {
      out[{Kind::kEndpoints, domain, side, 0, 0}] = kMinEndpoints;
    }
  }
  out[{Kind::kHairpin, Domain::kAddress, Side::kBoth, 0, 0}] = kMinSize;
  out[{Kind::kClusterIps, Domain::kAddress, Side::kBoth, 0, 0}] = kMinSize;
  return out;
}

uint32_t SizeFor(const SetId& id, size_t used) {
  const uint32_t least = id.kind == Kind::kEndpoints ? kMinEndpoints : kMinSize;
  return std::max(least, std::bit_ceil(static_cast<uint32_t>(used) * 2));
}

Set FormOf(const SetId& id, uint32_t size) {
  Set set;
  set.name = NameOf(id);
  set.key = KeyOf(id);
  set.to = id.kind == Kind::kEndpoints                            ? MapTo::kEndpoint
           : id.kind == Kind::kSticky || id.kind == Kind::kRecord ? MapTo::kVerdict
                                                                  : MapTo::kNothing;
  set.size = size;
  return set;
}

}  // namespace holdfast::netproxy::nft
