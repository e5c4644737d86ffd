// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/tunnel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/sys/sysctl.h"

namespace holdfast::netproxy {
namespace {

constexpr uint32_t kUnderlayMtu = 1500;  // of an address that is on no link with an MTU of its own
constexpr uint32_t kOverhead = 50, kOverhead6 = 70;  // outer headers

uint64_t Fnv1a(const IpAddress& ip) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : ip.bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

bool IsLinkLocal(const IpAddress& ip) {
  return ip.v6 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
}

// Of `all`, what `known` does not have.
template <class T>
std::vector<T> Without(std::vector<T> all, std::vector<T> known) {
  std::ranges::sort(all);
  std::ranges::sort(known);
  std::vector<T> out;
  std::ranges::set_difference(all, known, std::back_inserter(out));
  return out;
}

// Answers may come by the other way, when one of two nodes has both on a link. Nobody else can have an address of the
// device, so the second that the kernel waits for him is lost.
Result<void> Tune(const std::string& device, bool v6) {
  if (v6) return sys::SysctlDir("net/ipv6/conf").Write(device + "/accept_dad", "0");
  return sys::SysctlDir("net/ipv4/conf").Write(device + "/rp_filter", "2");
}

}  // namespace

sys::MacAddress TunnelEnd(const IpAddress& node) {
  if (!node.v6) {
    return {0x02, 0x68, node.bytes[0], node.bytes[1], node.bytes[2], node.bytes[3]};
  }
  sys::MacAddress mac{0x02};
  uint64_t hash = Fnv1a(node);
  for (size_t i = 1; i < mac.size(); ++i, hash >>= 8) mac[i] = static_cast<uint8_t>(hash);
  return mac;
}

// RFC 4291 appendix A: the identifier of the interface, made from its hardware address.
IpAddress TunnelNextHop(const IpAddress& node) {
  if (!node.v6) return node;
  const sys::MacAddress mac = TunnelEnd(node);
  const uint8_t bytes[16] = {
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 0x02),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return IpAddress::FromBytes(true, bytes);
}

// From the link that has the address; of several that do, the first.
Result<uint32_t> Tunnel::Mtu(const IpAddress& own, const std::vector<sys::Address>& local) {
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, rtnl_.ListLinks());
  uint32_t mtu = kUnderlayMtu;
  const auto held = std::ranges::find(local, own, &sys::Address::ip);
  if (held == local.end()) {
    return NotFound("this node's address " + own.ToString() + " is on none of its links");
  }
  const auto link = std::ranges::find(links, held->link, &sys::Link::index);
  if (link != links.end() && !link->loopback) mtu = link->mtu;
  return mtu - (own.v6 ? kOverhead6 : kOverhead);
}

// One of another address or size is made anew: neither can be changed in a way that all kernels know.
Result<sys::Link> Tunnel::EnsureDevice(const IpAddress& own,
                                       const std::vector<sys::Address>& local) {
  ASSIGN_OR_RETURN(const uint32_t mtu, Mtu(own, local));
  const sys::VxlanSpec spec{.name = name_,
                            .mac = TunnelEnd(own),
                            .id = kTunnelId,
                            .port = kTunnelPort,
                            .local = own,
                            .mtu = mtu};
  auto link = rtnl_.GetLink(name_);
  if (!link && link.error().code() != Code::kNotFound) return std::move(link.error());
  const bool fits = link && link->kind == "vxlan" && link->mac == spec.mac && link->mtu == mtu;
  if (link && !fits) RETURN_IF_ERROR(rtnl_.DeleteLink(link->index));
  if (!fits) {
    RETURN_IF_ERROR(rtnl_.AddVxlan(spec));
    link = rtnl_.GetLink(name_);
    if (!link) return std::move(link.error());
  }
  RETURN_IF_ERROR(Tune(name_, own.v6));
  if (!link->up) RETURN_IF_ERROR(rtnl_.SetLinkUp(link->index, "pods of nodes behind a router"));
  return std::move(*link);
}

// (The addresses of a device that was made anew went with the former one, and its index is another one.)
Result<void> Tunnel::SetAddresses(int link, const TunnelEnds& ends,
                                  const std::vector<sys::Address>& local) {
  for (const sys::Address& address : local) {
    const bool ours = address.link == link && address.ip.v6 == ends.own.v6;
    if (ours && !IsLinkLocal(address.ip) && address.ip != ends.pod_side) {
      RETURN_IF_ERROR(rtnl_.DeleteAddress(address));
    }
  }
  if (!ends.pod_side) return {};
  const sys::Address address{*ends.pod_side, ends.pod_side->MaxPrefix(), link};
  if (std::ranges::find(local, address) != local.end()) return {};
  return rtnl_.EnsureAddress(address);
}

// New ones first: the way of a packet is never half taken away.
Result<void> Tunnel::SetEntries(int link, const std::vector<IpAddress>& peers) {
  std::vector<sys::Neighbour> neighbours;
  std::vector<sys::ForwardingEntry> forwarding;
  for (const IpAddress& peer : peers) {
    neighbours.push_back({TunnelNextHop(peer), link, TunnelEnd(peer)});
    forwarding.push_back({TunnelEnd(peer), peer, link});
  }
  ASSIGN_OR_RETURN(const auto known_forwarding, rtnl_.ListForwarding(link));
  ASSIGN_OR_RETURN(const auto known_neighbours, rtnl_.ListNeighbours(link));
  for (const auto& entry : Without(forwarding, known_forwarding)) {
    RETURN_IF_ERROR(rtnl_.EnsureForwarding(entry));
  }
  for (const auto& entry : Without(neighbours, known_neighbours)) {
    RETURN_IF_ERROR(rtnl_.EnsureNeighbour(entry));
  }
  for (const auto& entry : Without(known_neighbours, neighbours)) {
    RETURN_IF_ERROR(rtnl_.DeleteNeighbour(entry));
  }
  for (const auto& entry : Without(known_forwarding, forwarding)) {
    RETURN_IF_ERROR(rtnl_.DeleteForwarding(entry));
  }
  return {};
}

Result<int> Tunnel::Apply(const TunnelEnds& ends, const std::vector<sys::Address>& local) {
  ASSIGN_OR_RETURN(const sys::Link link, EnsureDevice(ends.own, local));
  RETURN_IF_ERROR(SetAddresses(link.index, ends, local));
  RETURN_IF_ERROR(SetEntries(link.index, ends.peers));
  return link.index;
}

Result<void> Tunnel::Remove() {
  auto link = rtnl_.GetLink(name_);
  if (!link && link.error().code() == Code::kNotFound) return {};
  if (!link) return std::move(link.error());
  return rtnl_.DeleteLink(link->index);
}

}  // namespace holdfast::netproxy
