// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/wiring.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/pause_point.h"
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

// Before the link is up: a pod must not steer the node for one packet (security-catalogue NE-01).
void TuneNodeEnd(const NodeSysctls& sysctls, const PodWiring& pod,
                 std::vector<std::string>& warnings) {
  const std::string prefix = pod.interface + "/";
  // rp_filter: the kernel's own source check, which holds even while somebody flushes our rules.
  // route_localnet: a link takes `default` over, which may be anything.
  Tune(sysctls.ipv4, prefix,
       {{"rp_filter", "1"},
        {"accept_redirects", "0"},
        {"route_localnet", pod.loopback_ports ? "1" : "0"}},
       warnings);
  if (!HasIpv6(pod)) return;
  Tune(sysctls.ipv6, prefix,
       {{"accept_ra", "0"}, {"accept_redirects", "0"}, {"addr_gen_mode", "1"}}, warnings);
}

void TunePodEnd(const PodWiring& pod, const MountFd& procfs, std::vector<std::string>& warnings) {
  Tune(sys::SysctlDir(StrCat("net/ipv4/conf/", kPodInterface), procfs), "",
       {{"accept_redirects", "0"}}, warnings);
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

// Runs on a thread inside the pod's namespace.
Result<void> WirePodEnd(const PodWiring& pod, const MountFd& procfs,
                        std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  RETURN_IF_ERROR(rtnl.SetLinkUp(kLoopbackIndex));
  ASSIGN_OR_RETURN(const sys::Link link, rtnl.GetLink(kPodInterface));
  TunePodEnd(pod, procfs, warnings);
  for (const auto& [ip, node] : pod.addresses) {
    RETURN_IF_ERROR(rtnl.EnsureAddress({ip, ip.MaxPrefix(), link.index}));
  }
  if (!link.up) RETURN_IF_ERROR(rtnl.SetLinkUp(link.index));
  HOLDFAST_PAUSE_POINT("podnet.wire.pod_end_up");
  for (const auto& [ip, node] : pod.addresses) {
    RETURN_IF_ERROR(rtnl.EnsureNeighbour({GatewayFor(ip.v6), link.index, kNodeMac}));
    RETURN_IF_ERROR(rtnl.ReplaceRoute(PodDefaultRoute(ip, link.index)));
  }
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
Result<std::optional<sys::Link>> ClearTheWay(sys::Rtnl& node, int netns, const PodWiring& pod) {
  auto present = node.GetLink(pod.interface);
  if (!present) {
    if (present.error().code() == Code::kNotFound) return std::optional<sys::Link>();
    return std::move(present.error());
  }
  if (present->kind != "veth" || present->mac != kNodeMac) {
    return Conflict(StrCat("add veth ", pod.interface, ": an interface of that name is not ours"));
  }
  ASSIGN_OR_RETURN(const bool wanted, LeadsTo(netns, *present, pod.uid));
  if (wanted) return std::optional<sys::Link>(*present);
  RETURN_IF_ERROR(node.DeleteLink(present->index));
  HOLDFAST_PAUSE_POINT("podnet.wire.stale_veth_deleted");
  return std::optional<sys::Link>();
}

Result<sys::Link> EnsureVeth(sys::Rtnl& node, int netns, const PodWiring& pod) {
  const sys::VethSpec spec{.name = pod.interface,
                           .mac = kNodeMac,
                           .mtu = pod.mtu,
                           .peer_netns = netns,
                           .peer_name = kPodInterface,
                           .peer_mac = PodMac(pod.uid)};
  auto added = node.AddVeth(spec);
  if (!added && added.error().code() == Code::kAlreadyExists) {
    ASSIGN_OR_RETURN(const std::optional<sys::Link> present, ClearTheWay(node, netns, pod));
    if (present) return *present;
    added = node.AddVeth(spec);
  }
  if (!added && added.error().code() == Code::kAlreadyExists) {
    return Conflict(StrCat("add ", kPodInterface, " of pod ", pod.uid.value,
                           ": its network namespace has an interface of that name"));
  }
  if (!added) return std::move(added.error());
  HOLDFAST_PAUSE_POINT("podnet.wire.veth_added");
  return node.GetLink(pod.interface);
}

Result<void> EnsureHostRoute(sys::Rtnl& node, const sys::Route& route) {
  auto added = node.AddRoute(route);
  if (added || added.error().code() != Code::kAlreadyExists) return added;
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

Result<void> RouteToPod(sys::Rtnl& node, const sys::Link& link, const PodWiring& pod) {
  for (const auto& [ip, node_ip] : pod.addresses) {
    RETURN_IF_ERROR(node.EnsureNeighbour({ip, link.index, PodMac(pod.uid)}));
    sys::Route route;
    route.destination = {ip, ip.MaxPrefix()};
    route.link = link.index;
    route.source = node_ip;
    route.protocol = kRouteProtocol;
    RETURN_IF_ERROR(EnsureHostRoute(node, route));
    HOLDFAST_PAUSE_POINT("podnet.wire.host_route_added");
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
  ASSIGN_OR_RETURN(const sys::Link link, EnsureVeth(node, netns, pod));
  TuneNodeEnd(sysctls, pod, warnings);
  RETURN_IF_ERROR(node.SetLinkUp(link.index, pod.alias));
  HOLDFAST_PAUSE_POINT("podnet.wire.node_end_up");
  const MountFd& procfs = sysctls.pods.Next();
  RETURN_IF_ERROR(
      sys::RunInNetworkNamespace(netns, [&] { return WirePodEnd(pod, procfs, warnings); }));
  RETURN_IF_ERROR(RouteToPod(node, link, pod));
  return WaitUntilRunning(node, pod.interface);
}

}  // namespace holdfast::netproxy
