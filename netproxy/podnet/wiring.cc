// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/wiring.h"

#include <linux/if_link.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/rtnl_batch.h"
#include "netproxy/podnet/link_files.h"
#include "netproxy/podnet/ready_link.h"

namespace holdfast::netproxy {
namespace {

constexpr int kLoopbackIndex = 1;  // "lo" is the first link of every namespace
constexpr std::chrono::seconds kRunningLimit(5);

// What the pod sends everything to: link-local, the same in every pod.
IpAddress GatewayFor(bool v6) {
  static constexpr uint8_t kV4[] = {169, 254, 1, 1};
  static constexpr uint8_t kV6[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return v6 ? IpAddress::FromBytes(true, kV6) : IpAddress::FromBytes(false, kV4);
}

bool HasIpv6(const PodWiring& pod) {
  return std::any_of(pod.addresses.begin(), pod.addresses.end(),
                     [](const PodWiring::Address& a) { return a.pod.v6; });
}

// A pod must not steer the node for one packet (security-catalogue NE-01): all of these are set before
// the link is up. The first ones by netlink, with the rest of the wiring; IPv6's have files only.
sys::LinkParameters NodeEndParameters(const PodWiring& pod) {
  sys::LinkParameters wanted;
  // The kernel's own source check, which holds even while somebody flushes our rules.
  wanted.rp_filter = 1;
  wanted.accept_redirects = 0;
  // A link takes `default` over, which may be anything.
  wanted.route_localnet = pod.loopback_ports ? 1 : 0;
  if (HasIpv6(pod)) wanted.ipv6_addr_gen_mode = IN6_ADDR_GEN_MODE_NONE;
  // With these and not when it is brought up: each change of a link besides its going up makes the kernel walk all IPv6 routes of
  // the node.
  wanted.alias = pod.alias;
  return wanted;
}

sys::LinkParameters PodEndParameters() {
  sys::LinkParameters wanted;
  wanted.accept_redirects = 0;
  return wanted;
}

sys::Route PodDefaultRoute(const IpAddress& address, int link) {
  sys::Route route;
  route.destination.network.v6 = address.v6;
  route.link = link;
  route.gateway = GatewayFor(address.v6);
  route.source = address;
  route.protocol = kRouteProtocol;
  return route;
}

// What a pod works without.
Result<void> AddPodEndTuning(const PodWiring& pod, int eth0, sys::RtnlBatch& batch) {
  RETURN_IF_ERROR(batch.SetParameters(eth0, PodEndParameters()));
  // The only neighbour is known. Whoever else a pod sends to would take places of the table of neighbours that the node
  // has for all its links.
  RETURN_IF_ERROR(batch.SolicitNobody(eth0, false));
  if (HasIpv6(pod)) RETURN_IF_ERROR(batch.SolicitNobody(eth0, true));
  return {};
}

// The pod's routes stand on its addresses, and these on the link: in that order.
Result<void> AddPodEnd(const PodWiring& pod, int eth0, sys::RtnlBatch& batch) {
  RETURN_IF_ERROR(batch.SetLinkUp(kLoopbackIndex));
  for (const auto& [ip, node] : pod.addresses) {
    RETURN_IF_ERROR(batch.EnsureAddress({ip, ip.MaxPrefix(), eth0}));
  }
  RETURN_IF_ERROR(batch.SetLinkUp(eth0));
  for (const auto& [ip, node] : pod.addresses) {
    RETURN_IF_ERROR(batch.EnsureNeighbour({GatewayFor(ip.v6), eth0, kNodeMac}));
    RETURN_IF_ERROR(batch.ReplaceRoute(PodDefaultRoute(ip, eth0)));
  }
  return {};
}

// Inside the pod's namespace; the files are written.
Result<void> WirePodEnd(const PodWiring& pod, int eth0, std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  sys::RtnlBatch batch;
  RETURN_IF_ERROR(AddPodEndTuning(pod, eth0, batch));
  const size_t tuning = batch.size();
  RETURN_IF_ERROR(AddPodEnd(pod, eth0, batch));
  std::vector<Result<void>> done = rtnl.Do(batch);
  for (size_t i = 0; i < tuning; ++i) {
    if (!done[i]) warnings.push_back(done[i].error().message());
  }
  for (size_t i = tuning; i < done.size(); ++i) RETURN_IF_ERROR(std::move(done[i]));
  HOLDFAST_PAUSE_POINT("podnet.wire.pod_end_up");
  return {};
}

// Some route to that destination is there: ours is made what it should be, a foreign one stays.
Result<void> CorrectHostRoute(sys::Rtnl& node, const sys::Route& route) {
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, node.ListRoutes());
  for (const sys::Route& r : routes) {
    if (r.destination != route.destination) continue;
    if (r.protocol != kRouteProtocol) {
      return Conflict(
          StrCat("add route ", route.destination.ToString(), ": a foreign route is there"));
    }
    if (r.link == route.link && r.source == route.source) return {};
  }
  return node.ReplaceRoute(route);
}

sys::Route HostRoute(const PodWiring::Address& address, int link) {
  sys::Route route;
  route.destination = {address.pod, address.pod.MaxPrefix()};
  route.link = link;
  route.source = address.node;
  route.protocol = kRouteProtocol;
  return route;
}

// The first changes: what a link works without, and the name by which one that lay ready becomes the pod's.
Result<sys::RtnlBatch> NodeEnd(const PodWiring& pod, const PodVeth& veth, bool lay_ready) {
  const int link = veth.ends.index;
  sys::RtnlBatch batch;
  RETURN_IF_ERROR(batch.SetParameters(link, NodeEndParameters(pod)));
  if (lay_ready) RETURN_IF_ERROR(batch.AddName(link, InterfaceName(pod.prefix, pod.uid)));
  RETURN_IF_ERROR(batch.SetLinkUp(link));
  for (const PodWiring::Address& address : pod.addresses) {
    RETURN_IF_ERROR(batch.EnsureNeighbour({address.pod, link, veth.pod_mac}));
  }
  for (const PodWiring::Address& address : pod.addresses) {
    RETURN_IF_ERROR(batch.AddRoute(HostRoute(address, link)));
  }
  return batch;
}

// Success too when the link had the name already.
Result<void> CheckName(sys::Rtnl& node, const PodWiring& pod, const PodVeth& veth,
                       Result<void> named) {
  if (named || named.error().code() != Code::kAlreadyExists) return named;
  const auto link = node.GetLink(InterfaceName(pod.prefix, pod.uid));
  if (link && link->index == veth.ends.index) return {};
  return named;
}

// kAlreadyExists when another link has the pod's name.
Result<void> WireNodeEnd(sys::Rtnl& node, const PodWiring& pod, const PodVeth& veth, bool lay_ready,
                         std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const sys::RtnlBatch batch, NodeEnd(pod, veth, lay_ready));
  std::vector<Result<void>> done = node.Do(batch);
  HOLDFAST_PAUSE_POINT("podnet.wire.node_end_up");
  if (!done[0]) {
    warnings.push_back(done[0].error().message());
    RETURN_IF_ERROR(node.SetLinkUp(veth.ends.index, pod.alias));  // it works without the rest
  }
  if (lay_ready) RETURN_IF_ERROR(CheckName(node, pod, veth, std::move(done[1])));
  const size_t first_route = done.size() - pod.addresses.size();
  for (size_t i = lay_ready ? 2 : 1; i < done.size(); ++i) {
    if (done[i]) continue;
    if (i < first_route || done[i].error().code() != Code::kAlreadyExists)
      return std::move(done[i]);
    const PodWiring::Address& address = pod.addresses[i - first_route];
    RETURN_IF_ERROR(CorrectHostRoute(node, HostRoute(address, veth.ends.index)));
  }
  return {};
}

// nullopt: there is none, or the pod has the link of a sandbox that it had before; EnsureVeth knows what to do then.
Result<std::optional<PodVeth>> TakeReadyLink(sys::Rtnl& node, int netns, const PodWiring& pod,
                                             std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const std::optional<PodVeth> ready,
                   FindReadyLink(node, netns, pod.prefix, {pod.mtu, HasIpv6(pod)}));
  if (!ready) return ready;
  auto wired = WireNodeEnd(node, pod, *ready, true, warnings);
  if (wired) return ready;
  if (wired.error().code() == Code::kAlreadyExists) return std::optional<PodVeth>();
  return std::move(wired.error());
}

// The end that came up first sends only after the kernel's link watch has run (it drops packets
// until then). From Linux 6.8 on asking for the link makes it run; before, it takes a moment.
Result<void> WaitUntilRunning(sys::Rtnl& node, int link) {
  const auto deadline = std::chrono::steady_clock::now() + kRunningLimit;
  for (;;) {
    ASSIGN_OR_RETURN(const bool running, node.IsRunning(link));
    if (running) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(Code::kDeadlineExceeded, StrCat("link ", link, ": up, but not running"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace

Result<int> WirePod(sys::Rtnl& node, NodeSysctls& sysctls, int netns, const PodWiring& pod,
                    std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(std::optional<PodVeth> veth, TakeReadyLink(node, netns, pod, warnings));
  const MountFd* procfs = nullptr;  // what lay ready is tuned
  if (!veth) {
    ASSIGN_OR_RETURN(veth, EnsureVeth(node, netns, pod.prefix, pod.uid, pod.mtu));
    TuneNodeEnd(sysctls, InterfaceName(pod.prefix, pod.uid), HasIpv6(pod), warnings);
    RETURN_IF_ERROR(WireNodeEnd(node, pod, *veth, false, warnings));
    procfs = &sysctls.pods.Next();
  }
  RETURN_IF_ERROR(sys::VisitNetworkNamespace(netns, sysctls.home, [&] {
    if (procfs != nullptr) TunePodEnd(HasIpv6(pod), *procfs, warnings);
    return WirePodEnd(pod, veth->ends.peer_index, warnings);
  }));
  RETURN_IF_ERROR(WaitUntilRunning(node, veth->ends.index));
  return veth->ends.index;
}

}  // namespace holdfast::netproxy
