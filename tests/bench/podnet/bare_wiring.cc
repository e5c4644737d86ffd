// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/podnet/bare_wiring.h"

#include "holdfast/sys/netns.h"
#include "holdfast/sys/rtnl_batch.h"

namespace holdfast::bench {

namespace {

struct Family {
  const char* ip;
  const char* gateway;
};
constexpr Family kFamilies[] = {{"10.99.0.2", "169.254.1.1"}, {"fd00:99::2", "fe80::1"}};

Result<void> WireInside(int eth0) {
  ASSIGN_OR_RETURN(sys::Rtnl inside, sys::Rtnl::Open());
  sys::RtnlBatch batch;
  for (const Family& family : kFamilies) {
    ASSIGN_OR_RETURN(const IpAddress ip, IpAddress::Parse(family.ip));
    RETURN_IF_ERROR(batch.EnsureAddress({ip, ip.MaxPrefix(), eth0}));
  }
  RETURN_IF_ERROR(batch.SetLinkUp(eth0));
  for (const Family& family : kFamilies) {
    sys::Route route;
    ASSIGN_OR_RETURN(route.gateway, IpAddress::Parse(family.gateway));
    route.destination.network.v6 = route.gateway->v6;
    route.link = eth0;
    RETURN_IF_ERROR(batch.AddRoute(route));
  }
  for (auto& done : inside.Do(batch)) RETURN_IF_ERROR(std::move(done));
  return {};
}

}  // namespace

Result<void> WireBare(sys::Rtnl& node, int netns, const std::string& name) {
  ASSIGN_OR_RETURN(const sys::VethEnds ends, node.AddVeth({.name = name,
                                                           .mac = {2, 0, 0, 0, 1, 1},
                                                           .mtu = 1500,
                                                           .peer_netns = netns,
                                                           .peer_name = "eth0",
                                                           .peer_mac = {2, 0, 0, 0, 1, 2}}));
  sys::RtnlBatch batch;
  RETURN_IF_ERROR(batch.SetLinkUp(ends.index));
  for (const Family& family : kFamilies) {
    ASSIGN_OR_RETURN(const IpAddress ip, IpAddress::Parse(family.ip));
    sys::Route host;
    host.destination = {ip, ip.MaxPrefix()};
    host.link = ends.index;
    RETURN_IF_ERROR(batch.ReplaceRoute(host));
  }
  for (auto& done : node.Do(batch)) RETURN_IF_ERROR(std::move(done));
  return sys::RunInNetworkNamespace(netns, [&] { return WireInside(ends.peer_index); });
}

}  // namespace holdfast::bench
