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
#include "holdfast/sys/sysctl.h"

namespace holdfast::netproxy {
namespace {

constexpr char kPodInterface[] = "eth0";
constexpr int kLoopbackIndex = 1;  // "lo" is the first link of every namespace
constexpr size_t kHashDigits = 11;
constexpr std::chrono::seconds kRunningLimit(5);

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t Hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

sys::MacAddress PodMac(const PodUid& uid) {
  const uint64_t h = Hash(uid.value);
  sys::MacAddress mac = {0x02, 0x68};  // locally administered
  for (size_t i = 2; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(h >> (8 * i));
  return mac;
}

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

struct Setting {
  const char* name;
  const char* value;
};

// `prefix`: "" or "INTERFACE/".
void Tune(const sys::SysctlDir& dir, const std::string& prefix,
          std::initializer_list<Setting> settings, std::vector<std::string>& warnings) {
  for (const Setting& s : settings) {
    auto done = dir.Write(prefix + s.name, s.value);
    if (!done) warnings.push_back(done.error().message());
  }
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
  return wanted;
}

void TuneNodeEnd(const NodeSysctls& sysctls, const PodWiring& pod,
                 std::vector<std::string>& warnings) {
  if (!HasIpv6(pod)) return;
  Tune(sysctls.ipv6, pod.interface + "/", {{"accept_ra", "0"}, {"accept_redirects", "0"}},
       warnings);
}

sys::LinkParameters PodEndParameters() {
  sys::LinkParameters wanted;
  wanted.accept_redirects = 0;
  return wanted;
}

void TunePodEnd(const PodWiring& pod, const MountFd& procfs, std::vector<std::string>& warnings) {
  const std::string ipv6 = StrCat("net/ipv6/conf/", kPodInterface);
  if (HasIpv6(pod)) {
    Tune(sys::SysctlDir(ipv6, procfs), "",
         {{"accept_ra", "0"}, {"accept_redirects", "0"}, {"accept_dad", "0"}}, warnings);
  } else if (sys::ReadSysctl(ipv6 + "/disable_ipv6")) {
    Tune(sys::SysctlDir(ipv6, procfs), "", {{"disable_ipv6", "1"}}, warnings);
  }
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

// Runs on a thread inside the pod's namespace.
Result<void> WirePodEnd(const PodWiring& pod, int eth0, const MountFd& procfs,
                        std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  TunePodEnd(pod, procfs, warnings);
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

// True when the pod's eth0 is the other end of `node_end`.
Result<bool> LeadsTo(int netns, const sys::Link& node_end, const PodUid& uid) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::OpenIn(netns));
  auto link = rtnl.GetLink(kPodInterface);
  if (!link) {
    if (link.error().code() == Code::kNotFound) return false;
    return std::move(link.error());
  }
  return link->kind == "veth" && link->mac == PodMac(uid) && link->peer_index == node_end.index;
}

// What stands in the way of a new veth: nothing (removed, if it led to a namespace that this pod
// had before; only here a veth is deleted by us), or the wanted veth itself.
Result<std::optional<sys::VethEnds>> ClearTheWay(sys::Rtnl& node, int netns, const PodWiring& pod) {
  auto present = node.GetLink(pod.interface);
  if (!present) {
    if (present.error().code() == Code::kNotFound) return std::optional<sys::VethEnds>();
    return std::move(present.error());
  }
  if (present->kind != "veth" || present->mac != kNodeMac) {
    return Conflict(StrCat("add veth ", pod.interface, ": an interface of that name is not ours"));
  }
  ASSIGN_OR_RETURN(const bool wanted, LeadsTo(netns, *present, pod.uid));
  if (wanted) return std::optional<sys::VethEnds>({present->index, present->peer_index});
  RETURN_IF_ERROR(node.DeleteLink(present->index));
  HOLDFAST_PAUSE_POINT("podnet.wire.stale_veth_deleted");
  return std::optional<sys::VethEnds>();
}

Result<sys::VethEnds> EnsureVeth(sys::Rtnl& node, int netns, const PodWiring& pod) {
  const sys::VethSpec spec{.name = pod.interface,
                           .mac = kNodeMac,
                           .mtu = pod.mtu,
                           .peer_netns = netns,
                           .peer_name = kPodInterface,
                           .peer_mac = PodMac(pod.uid)};
  auto added = node.AddVeth(spec);
  if (!added && added.error().code() == Code::kAlreadyExists) {
    ASSIGN_OR_RETURN(const std::optional<sys::VethEnds> present, ClearTheWay(node, netns, pod));
    if (present) return *present;
    added = node.AddVeth(spec);
  }
  if (!added && added.error().code() == Code::kAlreadyExists) {
    return Conflict(StrCat("add ", kPodInterface, " of pod ", pod.uid.value,
                           ": its network namespace has an interface of that name"));
  }
  if (added) HOLDFAST_PAUSE_POINT("podnet.wire.veth_added");
  return added;
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

Result<sys::RtnlBatch> NodeEnd(const PodWiring& pod, int link) {
  sys::RtnlBatch batch;
  RETURN_IF_ERROR(batch.SetParameters(link, NodeEndParameters(pod)));
  RETURN_IF_ERROR(batch.SetLinkUp(link, pod.alias));
  for (const PodWiring::Address& address : pod.addresses) {
    RETURN_IF_ERROR(batch.EnsureNeighbour({address.pod, link, PodMac(pod.uid)}));
  }
  for (const PodWiring::Address& address : pod.addresses) {
    RETURN_IF_ERROR(batch.AddRoute(HostRoute(address, link)));
  }
  return batch;
}

Result<void> WireNodeEnd(sys::Rtnl& node, const NodeSysctls& sysctls, const PodWiring& pod,
                         int link, std::vector<std::string>& warnings) {
  TuneNodeEnd(sysctls, pod, warnings);
  ASSIGN_OR_RETURN(const sys::RtnlBatch batch, NodeEnd(pod, link));
  std::vector<Result<void>> done = node.Do(batch);
  HOLDFAST_PAUSE_POINT("podnet.wire.node_end_up");
  if (!done[0]) warnings.push_back(done[0].error().message());
  const size_t first_route = done.size() - pod.addresses.size();
  for (size_t i = 1; i < done.size(); ++i) {
    if (done[i]) continue;
    if (i < first_route || done[i].error().code() != Code::kAlreadyExists)
      return std::move(done[i]);
    RETURN_IF_ERROR(CorrectHostRoute(node, HostRoute(pod.addresses[i - first_route], link)));
  }
  return {};
}

// The end that came up first sends only after the kernel's link watch has run (it drops packets
// until then). From Linux 6.8 on asking for the link makes it run; before, it takes a moment.
Result<void> WaitUntilRunning(sys::Rtnl& node, const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + kRunningLimit;
  for (;;) {
    ASSIGN_OR_RETURN(const sys::Link link, node.GetLink(name));
    if (link.running) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(Code::kDeadlineExceeded, StrCat("link ", name, ": up, but not running"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace

std::string InterfaceName(const std::string& prefix, const PodUid& uid) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string name = prefix;
  uint64_t h = Hash(uid.value);
  for (size_t i = 0; i < kHashDigits; ++i, h >>= 4) name.push_back(kHex[h & 15]);
  return name;
}

bool IsOurInterface(const std::string& prefix, const sys::Link& link) {
  const std::string& name = link.name;
  return link.kind == "veth" && link.mac == kNodeMac &&
         name.size() == prefix.size() + kHashDigits && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
}

Result<void> WirePod(sys::Rtnl& node, NodeSysctls& sysctls, int netns, const PodWiring& pod,
                     std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const sys::VethEnds ends, EnsureVeth(node, netns, pod));
  RETURN_IF_ERROR(WireNodeEnd(node, sysctls, pod, ends.index, warnings));
  const MountFd& procfs = sysctls.pods.Next();
  RETURN_IF_ERROR(sys::RunInNetworkNamespace(
      netns, [&] { return WirePodEnd(pod, ends.peer_index, procfs, warnings); }));
  return WaitUntilRunning(node, pod.interface);
}

}  // namespace holdfast::netproxy
