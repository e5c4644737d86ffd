// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/ready_link.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/podnet/pod_veth.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kDigits = 8;

// The kernel gives this number to another namespace only after the links of this one are gone.
Result<uint32_t> NumberOf(int netns) {
  struct stat st{};
  if (::fstat(netns, &st) != 0) return Error::FromErrno(errno, "fstat a network namespace");
  return static_cast<uint32_t>(st.st_ino);
}

// "hf", "p4" or "p6", and the namespace's number: 'p' is no hex digit, so no InterfaceName() is like this.
std::string NameOfReady(const std::string& prefix, bool v6, uint32_t number) {
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%08x", number);
  return StrCat(prefix, v6 ? "p6" : "p4", digits);
}

// Of the pod's end: it stays when that is a pod's.
sys::MacAddress MacOfReady(uint32_t number) {
  sys::MacAddress mac = {0x02, 0x68};  // locally administered
  for (size_t i = 2; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(number >> (8 * (5 - i)));
  return mac;
}

Result<std::optional<sys::Link>> Look(sys::Rtnl& node, const std::string& name) {
  auto link = node.GetLink(name);
  if (!link && link.error().code() == Code::kNotFound) return std::optional<sys::Link>();
  if (!link) return std::move(link.error());
  if (link->kind != "veth" || link->mac != kNodeMac) return std::optional<sys::Link>();
  return std::optional<sys::Link>(std::move(*link));
}

}  // namespace

Result<void> MakeReadyLink(sys::Rtnl& node, NodeSysctls& sysctls, int netns,
                           const std::string& prefix, const LinkShape& shape,
                           std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const uint32_t number, NumberOf(netns));
  const std::string name = NameOfReady(prefix, shape.v6, number);
  RETURN_IF_ERROR(node.AddVeth({.name = name,
                                .mac = kNodeMac,
                                .mtu = shape.mtu,
                                .peer_netns = netns,
                                .peer_name = kPodInterface,
                                .peer_mac = MacOfReady(number)}));
  HOLDFAST_PAUSE_POINT("podnet.ready.veth_added");
  TuneNodeEnd(sysctls, name, shape.v6, warnings);
  const MountFd& procfs = sysctls.pods.Next();
  RETURN_IF_ERROR(sys::VisitNetworkNamespace(netns, sysctls.home, [&]() -> Result<void> {
    TunePodEnd(shape.v6, procfs, warnings);
    return {};
  }));
  HOLDFAST_PAUSE_POINT("podnet.ready.tuned");
  return {};
}

Result<std::optional<PodVeth>> FindReadyLink(sys::Rtnl& node, int netns, const std::string& prefix,
                                             const LinkShape& shape) {
  ASSIGN_OR_RETURN(const uint32_t number, NumberOf(netns));
  ASSIGN_OR_RETURN(const std::optional<sys::Link> link,
                   Look(node, NameOfReady(prefix, shape.v6, number)));
  if (!link) return std::optional<PodVeth>();
  const bool is_a_pods = !link->alias.empty();  // that keeps what it has, as all do
  if (!is_a_pods && link->mtu != shape.mtu) return std::optional<PodVeth>();
  return std::optional<PodVeth>({{link->index, link->peer_index}, MacOfReady(number)});
}

bool IsNameOfReady(const std::string& prefix, const std::string& name) {
  return name.size() == prefix.size() + 2 + kDigits &&
         (name.starts_with(prefix + "p4") || name.starts_with(prefix + "p6"));
}

Result<void> DropReadyLinks(sys::Rtnl& node, int netns, const std::string& prefix) {
  ASSIGN_OR_RETURN(const uint32_t number, NumberOf(netns));
  for (const bool v6 : {false, true}) {
    ASSIGN_OR_RETURN(const std::optional<sys::Link> link,
                     Look(node, NameOfReady(prefix, v6, number)));
    if (!link) continue;
    RETURN_IF_ERROR(node.DeleteLink(link->index));
    HOLDFAST_PAUSE_POINT("podnet.ready.dropped");
  }
  return {};
}

}  // namespace holdfast::netproxy
