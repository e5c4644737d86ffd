// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/podnet/bare_wiring.h"

#include "holdfast/sys/netns.h"

namespace holdfast::bench {

Result<void> WireBare(sys::Rtnl& node, int netns, const std::string& name) {
  ASSIGN_OR_RETURN(const IpAddress ip, IpAddress::Parse("10.99.0.2"));
  ASSIGN_OR_RETURN(const IpAddress gateway, IpAddress::Parse("169.254.1.1"));
  RETURN_IF_ERROR(node.AddVeth({.name = name,
                                .mac = {2, 0, 0, 0, 1, 1},
                                .mtu = 1500,
                                .peer_netns = netns,
                                .peer_name = "eth0",
                                .peer_mac = {2, 0, 0, 0, 1, 2}}));
  ASSIGN_OR_RETURN(const sys::Link link, node.GetLink(name));
  RETURN_IF_ERROR(node.SetLinkUp(link.index));
  const auto wire_inside = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(sys::Rtnl inside, sys::Rtnl::Open());
    ASSIGN_OR_RETURN(const sys::Link eth0, inside.GetLink("eth0"));
    RETURN_IF_ERROR(inside.EnsureAddress({ip, 32, eth0.index}));
    RETURN_IF_ERROR(inside.SetLinkUp(eth0.index));
    sys::Route route;
    route.gateway = gateway;
    route.link = eth0.index;
    return inside.AddRoute(route);
  };
  RETURN_IF_ERROR(sys::RunInNetworkNamespace(netns, wire_inside));
  sys::Route host;
  host.destination = {ip, 32};
  host.link = link.index;
  return node.ReplaceRoute(host);
}

}  // namespace holdfast::bench
