// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/pod_veth.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/podnet/link_files.h"
#include "netproxy/podnet/ready_link.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kHashDigits = 11;

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
// had before; only here and in ready_link.cc a veth is deleted by us), or the wanted veth itself.
Result<std::optional<sys::VethEnds>> ClearTheWay(sys::Rtnl& node, int netns,
                                                 const std::string& interface, const PodUid& uid) {
  auto present = node.GetLink(interface);
  if (!present) {
    if (present.error().code() == Code::kNotFound) return std::optional<sys::VethEnds>();
    return std::move(present.error());
  }
  if (present->kind != "veth" || present->mac != kNodeMac) {
    return Conflict(StrCat("add veth ", interface, ": an interface of that name is not ours"));
  }
  ASSIGN_OR_RETURN(const bool wanted, LeadsTo(netns, *present, uid));
  if (wanted) return std::optional<sys::VethEnds>({present->index, present->peer_index});
  RETURN_IF_ERROR(node.DeleteLink(present->index));
  HOLDFAST_PAUSE_POINT("podnet.wire.stale_veth_deleted");
  return std::optional<sys::VethEnds>();
}

}  // namespace

std::string InterfaceName(const std::string& prefix, const PodUid& uid) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string name = prefix;
  uint64_t h = Hash(uid.value);
  for (size_t i = 0; i < kHashDigits; ++i, h >>= 4) name.push_back(kHex[h & 15]);
  return name;
}

std::string PodInterface(const std::string& prefix, const sys::Link& link) {
  const std::string& name = link.name;
  if (link.kind != "veth" || link.mac != kNodeMac || !name.starts_with(prefix)) return "";
  const bool is_hash =
      name.size() == prefix.size() + kHashDigits &&
      name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
  if (is_hash) return name;
  if (!IsNameOfReady(prefix, name) || link.alias.empty()) return "";
  return InterfaceName(prefix, PodUid(link.alias.substr(link.alias.rfind(' ') + 1)));
}

std::string InterfaceAlias(const std::string& pod_namespace, const std::string& pod_name,
                           const PodUid& uid) {
  constexpr size_t kMost = 254;  // and a 0
  const size_t room = kMost - std::min(kMost, uid.value.size() + 1);
  return StrCat(StrCat(pod_namespace, "/", pod_name).substr(0, room), " ", uid.value);
}

Result<PodVeth> EnsureVeth(sys::Rtnl& node, int netns, const std::string& prefix, const PodUid& uid,
                           uint32_t mtu) {
  const sys::VethSpec spec{.name = InterfaceName(prefix, uid),
                           .mac = kNodeMac,
                           .mtu = mtu,
                           .peer_netns = netns,
                           .peer_name = kPodInterface,
                           .peer_mac = PodMac(uid)};
  auto added = node.AddVeth(spec);
  if (!added && added.error().code() == Code::kAlreadyExists) {
    ASSIGN_OR_RETURN(const std::optional<sys::VethEnds> present,
                     ClearTheWay(node, netns, spec.name, uid));
    if (present) return PodVeth{*present, spec.peer_mac};
    RETURN_IF_ERROR(DropReadyLinks(node, netns, prefix));
    added = node.AddVeth(spec);
  }
  if (!added && added.error().code() == Code::kAlreadyExists) {
    return Conflict(StrCat("add ", kPodInterface, " of pod ", uid.value,
                           ": its network namespace has an interface of that name"));
  }
  if (!added) return std::move(added.error());
  HOLDFAST_PAUSE_POINT("podnet.wire.veth_added");
  return PodVeth{*added, spec.peer_mac};
}

}  // namespace holdfast::netproxy
