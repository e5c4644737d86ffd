// SPDX-License-Identifier: Apache-2.0
// Routing netlink verbs (links, addresses, routes, neighbours) through libnl-route-3.
// A Rtnl is one socket bound to one network namespace for its whole life; the calling thread is
// never moved. One thread at a time per object. Errors name the verb and its object.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"

struct nl_sock;

namespace holdfast::sys {

using MacAddress = std::array<uint8_t, 6>;

struct Link {
  int index = 0;
  std::string name;
  std::string kind;   // "veth", …; "" for hardware
  std::string alias;  // free text
  MacAddress mac{};
  uint32_t mtu = 0;
  int peer_index = 0;    // IFLA_LINK; of a veth the other end's index in its own namespace
  bool up = false;       // administratively
  bool running = false;  // and packets pass: of a veth, both ends are up and the kernel has noticed
  bool loopback = false;
};

struct VethSpec {
  std::string name;
  MacAddress mac{};
  uint32_t mtu = 0;
  // The other end appears directly in `peer_netns` (borrowed), so it is never seen in ours.
  int peer_netns = -1;
  std::string peer_name;
  MacAddress peer_mac{};
};

// A VXLAN that learns nothing: only what its forwarding entries name is reached.
struct VxlanSpec {
  std::string name;
  MacAddress mac{};
  uint32_t id = 0;
  uint16_t port = 0;  // UDP, of all who take part
  IpAddress local;    // the source of its packets; their family is the tunnel's
  uint32_t mtu = 0;
};

struct Address {
  IpAddress ip;
  uint8_t prefix = 0;
  int link = 0;
  bool operator==(const Address&) const = default;
};

struct Route {
  Cidr destination;
  bool unreachable = false;  // type unreachable, without a link
  int link = 0;
  std::optional<IpAddress> gateway;  // taken as on-link: no route to it is needed
  std::optional<IpAddress> source;   // preferred source address
  uint8_t protocol = 0;              // who made it: /etc/iproute2/rt_protos
  bool operator==(const Route&) const = default;
};

struct Neighbour {
  IpAddress ip;
  int link = 0;
  MacAddress mac{};
  auto operator<=>(const Neighbour&) const = default;
};

// Of a VXLAN: frames to `mac` are sent to the node `remote`.
struct ForwardingEntry {
  MacAddress mac{};
  IpAddress remote;
  int link = 0;
  auto operator<=>(const ForwardingEntry&) const = default;
};

// Both ends of a veth by their numbers, each in its own namespace.
struct VethEnds {
  int index = 0;
  int peer_index = 0;
};

class RtnlBatch;  // rtnl_batch.h

class Rtnl {
 public:
  static Result<Rtnl> Open();             // the calling thread's namespace
  static Result<Rtnl> OpenIn(int netns);  // that namespace

  Rtnl(Rtnl&&) noexcept;
  Rtnl& operator=(Rtnl&&) noexcept;
  ~Rtnl();

  // All of the batch in one call; what each of its changes came to, in their order.
  std::vector<Result<void>> Do(const RtnlBatch& batch);

  // kNotFound when there is none of that name.
  Result<Link> GetLink(const std::string& name);
  // The same for less: whether there is one of that name (its own or an added one), whether one has that number, and
  // Link::running. The second waits for no change of links that is under way.
  Result<bool> HasLink(const std::string& name);
  Result<bool> HasLink(int index);
  Result<bool> IsRunning(int index);
  Result<std::vector<Link>> ListLinks();
  // kAlreadyExists when one of the two names is taken. Both ends start down.
  Result<VethEnds> AddVeth(const VethSpec& spec);
  // A link that leads nowhere. kUnsupported when this kernel has none of that kind, kAlreadyExists
  // when the name is taken. Starts down.
  Result<void> AddDummy(const std::string& name);
  // `alias` is free text that `ip link` shows, at most 255 bytes; "" leaves it as it is.
  Result<void> SetLinkUp(int index, const std::string& alias = "");
  // Success when it is gone already. A veth costs up to 30 ms here: for repair only.
  Result<void> DeleteLink(int index);

  // The Ensure* verbs succeed when all is there already. IPv6 addresses get "nodad": they are
  // usable at once. Neighbours are permanent.
  Result<void> EnsureAddress(const Address& address);
  // For addresses of services: nobody takes one as the source of a packet to somewhere else (IPv4:
  // scope host, IPv6: deprecated).
  Result<void> EnsureServiceAddress(const Address& address);
  Result<void> DeleteAddress(const Address& address);  // success when it is gone already
  Result<std::vector<Address>> ListAddresses();
  // kAlreadyExists when somebody has a route to this destination.
  Result<void> AddRoute(const Route& route);
  // Takes the place of whatever route to this destination there is.
  Result<void> ReplaceRoute(const Route& route);
  Result<void> DeleteRoute(const Route& route);  // success when it is gone already
  // The main table, both families.
  Result<std::vector<Route>> ListRoutes();
  // Single addresses that are the node's by a route of the table `local`, without being on a link;
  // `protocol` tells whose they are.
  Result<void> EnsureLocalRoute(const IpAddress& ip, int link, uint8_t protocol);
  Result<void> DeleteLocalRoute(const IpAddress& ip, int link, uint8_t protocol);
  Result<std::vector<IpAddress>> ListLocalRoutes(uint8_t protocol);
  Result<void> EnsureNeighbour(const Neighbour& neighbour);

  // kAlreadyExists when the name is taken, or id and port by another VXLAN of this namespace. Starts down.
  Result<void> AddVxlan(const VxlanSpec& spec);
  // Permanent entries of one link.
  Result<std::vector<Neighbour>> ListNeighbours(int link);
  Result<void> DeleteNeighbour(const Neighbour& neighbour);  // success when it is gone already
  Result<std::vector<ForwardingEntry>> ListForwarding(int link);
  Result<void> EnsureForwarding(const ForwardingEntry& entry);
  Result<void> DeleteForwarding(const ForwardingEntry& entry);  // success when it is gone already

 private:
  struct SocketFree {
    void operator()(nl_sock* socket) const;
  };
  explicit Rtnl(nl_sock* socket) : socket_(socket) {}

  std::unique_ptr<nl_sock, SocketFree> socket_;
};

}  // namespace holdfast::sys
