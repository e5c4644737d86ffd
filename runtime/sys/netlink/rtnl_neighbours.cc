// SPDX-License-Identifier: Apache-2.0
// Rtnl's verbs and requests for who is reached over a link: neighbours, and a VXLAN with its forwarding entries.
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/netlink.h>
#include <netlink/route/link/vxlan.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/rtnl.h"
#include "runtime/sys/netlink/nl_internal.h"
#include "runtime/sys/netlink/rtnl_request_internal.h"

namespace holdfast::sys {
namespace {

Result<NlPtr<rtnl_neigh>> ToNlEntry(int link, const IpAddress& ip, const MacAddress& mac,
                                    const std::string& what) {
  NlPtr<rtnl_neigh> out(::rtnl_neigh_alloc());
  const NlPtr<nl_addr> address = ToNl(ip, ip.MaxPrefix());
  const NlPtr<nl_addr> hardware = ToNl(mac);
  if (!out || !address || !hardware) return OutOfMemory(what);
  ::rtnl_neigh_set_ifindex(out.get(), link);
  ::rtnl_neigh_set_dst(out.get(), address.get());
  ::rtnl_neigh_set_lladdr(out.get(), hardware.get());
  return out;
}

// The kernel takes an entry of a link's own table by AF_BRIDGE; libnl writes the family of the address
// that was set last.
Result<NlPtr<rtnl_neigh>> ToNlForwarding(const ForwardingEntry& entry, const std::string& what) {
  ASSIGN_OR_RETURN(NlPtr<rtnl_neigh> out, ToNlEntry(entry.link, entry.remote, entry.mac, what));
  ::rtnl_neigh_set_family(out.get(), AF_BRIDGE);
  ::rtnl_neigh_set_flags(out.get(), NTF_SELF);
  ::rtnl_neigh_set_state(out.get(), NUD_PERMANENT | NUD_NOARP);
  return out;
}

std::string TextOf(const ForwardingEntry& entry) {
  return StrCat("forwarding to ", entry.remote.ToString(), " on link ", entry.link);
}

// Calls `take` with each permanent entry of a link, of the tables of neighbours or of links' own ones.
template <class Take>
Result<void> EachEntry(nl_sock* socket, int link, bool forwarding, const Take& take) {
  nl_cache* raw = nullptr;
  RETURN_IF_ERROR(
      CheckNl(::rtnl_neigh_alloc_cache_flags(socket, &raw, forwarding ? NL_CACHE_AF_ITER : 0U),
              "list neighbours"));
  const NlPtr<nl_cache> cache(raw);
  for (nl_object* o = ::nl_cache_get_first(raw); o != nullptr; o = ::nl_cache_get_next(o)) {
    auto* entry = reinterpret_cast<rtnl_neigh*>(o);
    if (::rtnl_neigh_get_ifindex(entry) != link) continue;
    if ((::rtnl_neigh_get_family(entry) == AF_BRIDGE) != forwarding) continue;
    if ((::rtnl_neigh_get_state(entry) & NUD_PERMANENT) == 0) continue;
    const auto ip = FromNl(::rtnl_neigh_get_dst(entry));
    const auto mac = MacFromNl(::rtnl_neigh_get_lladdr(entry));
    if (ip && mac) take(*ip, *mac);
  }
  return {};
}

}  // namespace

Result<void> Rtnl::AddVxlan(const VxlanSpec& spec) {
  const std::string what = StrCat("add vxlan ", spec.name);
  const NlPtr<rtnl_link> link(::rtnl_link_vxlan_alloc());
  const NlPtr<nl_addr> mac = ToNl(spec.mac);
  const NlPtr<nl_addr> local = ToNl(spec.local, spec.local.MaxPrefix());
  if (!link || !mac || !local) return OutOfMemory(what);
  ::rtnl_link_set_name(link.get(), spec.name.c_str());
  ::rtnl_link_set_addr(link.get(), mac.get());
  ::rtnl_link_set_mtu(link.get(), spec.mtu);
  RETURN_IF_ERROR(CheckNl(::rtnl_link_vxlan_set_id(link.get(), spec.id), what));
  RETURN_IF_ERROR(CheckNl(::rtnl_link_vxlan_set_port(link.get(), spec.port), what));
  RETURN_IF_ERROR(CheckNl(::rtnl_link_vxlan_set_local(link.get(), local.get()), what));
  RETURN_IF_ERROR(CheckNl(::rtnl_link_vxlan_disable_learning(link.get()), what));
  return CheckNl(::rtnl_link_add(socket_.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL), what);
}

Result<std::vector<Neighbour>> Rtnl::ListNeighbours(int link) {
  std::vector<Neighbour> out;
  RETURN_IF_ERROR(EachEntry(
      socket_.get(), link, false,
      [&](const IpAddress& ip, const MacAddress& mac) { out.push_back({ip, link, mac}); }));
  return out;
}

Result<RtnlRequest> RequestNeighbour(const Neighbour& neighbour) {
  RtnlRequest out{{},
                  StrCat("add neighbour ", neighbour.ip.ToString(), " on link ", neighbour.link)};
  ASSIGN_OR_RETURN(const NlPtr<rtnl_neigh> wanted,
                   ToNlEntry(neighbour.link, neighbour.ip, neighbour.mac, out.what));
  ::rtnl_neigh_set_state(wanted.get(), NUD_PERMANENT);
  nl_msg* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(
      ::rtnl_neigh_build_add_request(wanted.get(), NLM_F_CREATE | NLM_F_REPLACE, &raw), out.what));
  out.message.reset(raw);
  return out;
}

Result<RtnlRequest> RequestSolicitNobody(int link, bool v6) {
  RtnlRequest out{NewMessage(RTM_SETNEIGHTBL), StrCat("set mcast_solicit of link ", link)};
  nl_msg* const message = out.message.get();
  ndtmsg family{};
  family.ndtm_family = v6 ? AF_INET6 : AF_INET;
  if (message == nullptr || ::nlmsg_append(message, &family, sizeof family, NLMSG_ALIGNTO) != 0 ||
      ::nla_put_string(message, NDTA_NAME, v6 ? "ndisc_cache" : "arp_cache") != 0) {
    return OutOfMemory(out.what);
  }
  nlattr* const parameters = ::nla_nest_start(message, NDTA_PARMS);
  if (parameters == nullptr ||
      ::nla_put_u32(message, NDTPA_IFINDEX, static_cast<uint32_t>(link)) != 0 ||
      ::nla_put_u32(message, NDTPA_MCAST_PROBES, 0) != 0) {
    return OutOfMemory(out.what);
  }
  ::nla_nest_end(message, parameters);
  return out;
}

Result<void> Rtnl::EnsureNeighbour(const Neighbour& neighbour) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestNeighbour(neighbour));
  return Exchange(socket_.get(), {&request, 1}).front();
}

Result<void> Rtnl::DeleteNeighbour(const Neighbour& neighbour) {
  const std::string what =
      StrCat("delete neighbour ", neighbour.ip.ToString(), " on link ", neighbour.link);
  ASSIGN_OR_RETURN(const NlPtr<rtnl_neigh> request,
                   ToNlEntry(neighbour.link, neighbour.ip, neighbour.mac, what));
  return AbsentIsSuccess(CheckNl(::rtnl_neigh_delete(socket_.get(), request.get(), 0), what));
}

Result<std::vector<ForwardingEntry>> Rtnl::ListForwarding(int link) {
  std::vector<ForwardingEntry> out;
  RETURN_IF_ERROR(EachEntry(
      socket_.get(), link, true,
      [&](const IpAddress& ip, const MacAddress& mac) { out.push_back({mac, ip, link}); }));
  return out;
}

Result<void> Rtnl::EnsureForwarding(const ForwardingEntry& entry) {
  const std::string what = "add " + TextOf(entry);
  ASSIGN_OR_RETURN(const NlPtr<rtnl_neigh> request, ToNlForwarding(entry, what));
  return CheckNl(::rtnl_neigh_add(socket_.get(), request.get(), NLM_F_CREATE | NLM_F_REPLACE),
                 what);
}

Result<void> Rtnl::DeleteForwarding(const ForwardingEntry& entry) {
  const std::string what = "delete " + TextOf(entry);
  ASSIGN_OR_RETURN(const NlPtr<rtnl_neigh> request, ToNlForwarding(entry, what));
  return AbsentIsSuccess(CheckNl(::rtnl_neigh_delete(socket_.get(), request.get(), 0), what));
}

}  // namespace holdfast::sys
