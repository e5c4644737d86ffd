// SPDX-License-Identifier: Apache-2.0
// Changes of links, addresses, routes and neighbours that go to the kernel in one call (Rtnl::Do). It
// makes them in their order, and one that fails stops none of those behind it. Each means what the verb
// of the same name in rtnl.h does. No thread rule of its own; refers to no socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::sys {

// Parameters of one link that lie below net/ipv4/conf/LINK, of IPv6 the one that netlink sets, too, and what `ip link` shows.
// What is not given stays as it is.
struct LinkParameters {
  std::optional<uint32_t> rp_filter;
  std::optional<uint32_t> accept_redirects;
  std::optional<uint32_t> route_localnet;
  std::optional<uint8_t> ipv6_addr_gen_mode;
  std::string alias;  // at most 255 bytes
};

class RtnlBatch {
 public:
  RtnlBatch();
  RtnlBatch(RtnlBatch&&) noexcept;
  RtnlBatch& operator=(RtnlBatch&&) noexcept;
  ~RtnlBatch();

  size_t size() const;

  // A failure is a lack of memory, or something that no request can say; then nothing was added.
  Result<void> SetParameters(int link, const LinkParameters& parameters);
  Result<void> SetLinkUp(int link);
  // One more name by which it is found, beside its own. kAlreadyExists when a link has it, this one too. (A change of its own
  // name waits until no processor can be reading it; this does not.)
  Result<void> AddName(int link, const std::string& name);
  Result<void> EnsureAddress(const Address& address);
  Result<void> EnsureNeighbour(const Neighbour& neighbour);
  // Nobody on this link is asked for a hardware address any more (mcast_solicit 0): who is not known
  // is not reached, at once. (All network namespaces share one table of neighbours with 1024
  // places, and each that is asked for keeps one for seconds.)
  Result<void> SolicitNobody(int link, bool v6);
  Result<void> AddRoute(const Route& route);
  Result<void> ReplaceRoute(const Route& route);

 private:
  friend class Rtnl;
  struct Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace holdfast::sys
