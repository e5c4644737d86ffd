// SPDX-License-Identifier: Apache-2.0
// Rtnl's verbs for addresses that are the node's without being of use to it: those of services.
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/rtnl.h"
#include "runtime/sys/netlink/nl_internal.h"

namespace holdfast::sys {
namespace {

constexpr uint32_t kForever = 0xffffffff;

Result<NlPtr<rtnl_route>> LocalRoute(const IpAddress& ip, int link, uint8_t protocol,
                                     const std::string& what) {
  NlPtr<rtnl_route> out(::rtnl_route_alloc());
  NlPtr<nl_addr> destination = ToNl(ip, ip.MaxPrefix());
  if (!out || !destination) return OutOfMemory(what);
  ::rtnl_route_set_family(out.get(), static_cast<uint8_t>(ip.family()));
  RETURN_IF_ERROR(CheckNl(::rtnl_route_set_dst(out.get(), destination.get()), what));
  ::rtnl_route_set_table(out.get(), RT_TABLE_LOCAL);
  ::rtnl_route_set_protocol(out.get(), protocol);
  ::rtnl_route_set_scope(out.get(), ip.v6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_HOST);
  RETURN_IF_ERROR(CheckNl(::rtnl_route_set_type(out.get(), RTN_LOCAL), what));
  rtnl_nexthop* hop = ::rtnl_route_nh_alloc();  // owned by the route once added
  if (hop == nullptr) return OutOfMemory(what);
  ::rtnl_route_nh_set_ifindex(hop, link);
  ::rtnl_route_add_nexthop(out.get(), hop);
  return out;
}

}  // namespace

Result<void> Rtnl::AddDummy(const std::string& name) {
  const std::string what = StrCat("add dummy link ", name);
  NlPtr<rtnl_link> link(::rtnl_link_alloc());
  if (!link) return OutOfMemory(what);
  RETURN_IF_ERROR(CheckNl(::rtnl_link_set_type(link.get(), "dummy"), what));
  ::rtnl_link_set_name(link.get(), name.c_str());
  return CheckNl(::rtnl_link_add(socket_.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL), what);
}

Result<void> Rtnl::EnsureServiceAddress(const Address& address) {
  const std::string what =
      StrCat("add service address ", address.ip.ToString(), " to link ", address.link);
  NlPtr<rtnl_addr> request(::rtnl_addr_alloc());
  NlPtr<nl_addr> local = ToNl(address.ip, address.prefix);
  if (!request || !local) return OutOfMemory(what);
  ::rtnl_addr_set_ifindex(request.get(), address.link);
  RETURN_IF_ERROR(CheckNl(::rtnl_addr_set_local(request.get(), local.get()), what));
  if (address.ip.v6) {
    ::rtnl_addr_set_flags(request.get(), IFA_F_NODAD);
    ::rtnl_addr_set_valid_lifetime(request.get(), kForever);
    ::rtnl_addr_set_preferred_lifetime(request.get(), 0);
  } else {
    ::rtnl_addr_set_scope(request.get(), RT_SCOPE_HOST);
  }
  return CheckNl(::rtnl_addr_add(socket_.get(), request.get(), NLM_F_CREATE | NLM_F_REPLACE), what);
}

Result<void> Rtnl::EnsureLocalRoute(const IpAddress& ip, int link, uint8_t protocol) {
  const std::string what = StrCat("add local route ", ip.ToString());
  ASSIGN_OR_RETURN(NlPtr<rtnl_route> request, LocalRoute(ip, link, protocol, what));
  return CheckNl(::rtnl_route_add(socket_.get(), request.get(), NLM_F_CREATE | NLM_F_REPLACE),
                 what);
}

Result<void> Rtnl::DeleteLocalRoute(const IpAddress& ip, int link, uint8_t protocol) {
  const std::string what = StrCat("delete local route ", ip.ToString());
  ASSIGN_OR_RETURN(NlPtr<rtnl_route> request, LocalRoute(ip, link, protocol, what));
  auto done = CheckNl(::rtnl_route_delete(socket_.get(), request.get(), 0), what);
  if (!done && (done.error().sys_errno() == ESRCH || done.error().sys_errno() == ENOENT)) return {};
  return done;
}

Result<std::vector<IpAddress>> Rtnl::ListLocalRoutes(uint8_t protocol) {
  nl_cache* raw = nullptr;
  RETURN_IF_ERROR(
      CheckNl(::rtnl_route_alloc_cache(socket_.get(), AF_UNSPEC, 0, &raw), "list local routes"));
  NlPtr<nl_cache> cache(raw);
  std::vector<IpAddress> out;
  for (nl_object* o = ::nl_cache_get_first(raw); o != nullptr; o = ::nl_cache_get_next(o)) {
    auto* route = reinterpret_cast<rtnl_route*>(o);
    if (::rtnl_route_get_table(route) != RT_TABLE_LOCAL ||
        ::rtnl_route_get_protocol(route) != protocol) {
      continue;
    }
    if (const auto ip = FromNl(::rtnl_route_get_dst(route))) out.push_back(*ip);
  }
  return out;
}

}  // namespace holdfast::sys
