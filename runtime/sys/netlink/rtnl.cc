// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/rtnl.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/nexthop.h>
#include <netlink/socket.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "runtime/sys/netlink/nl_internal.h"
#include "runtime/sys/netlink/rtnl_request_internal.h"

namespace holdfast::sys {
namespace {

// IF_OPER_UP of <linux/if.h>, which does not go together with <net/if.h>. IFF_RUNNING will not do: it is set as well while
// the kernel has not looked at the link yet, as with one that was just made (netif_oper_up()).
constexpr uint8_t kOperationallyUp = 6;

Link ToLink(rtnl_link* link) {
  Link out;
  out.index = ::rtnl_link_get_ifindex(link);
  out.name = ::rtnl_link_get_name(link);
  const char* kind = ::rtnl_link_get_type(link);
  if (kind != nullptr) out.kind = kind;
  const char* alias = ::rtnl_link_get_ifalias(link);
  if (alias != nullptr) out.alias = alias;
  out.mac = MacFromNl(::rtnl_link_get_addr(link)).value_or(MacAddress{});
  out.mtu = ::rtnl_link_get_mtu(link);
  out.peer_index = ::rtnl_link_get_link(link);
  out.up = (::rtnl_link_get_flags(link) & IFF_UP) != 0;
  out.running = ::rtnl_link_get_operstate(link) == kOperationallyUp;
  out.loopback = (::rtnl_link_get_flags(link) & IFF_LOOPBACK) != 0;
  return out;
}

Result<NlPtr<rtnl_addr>> ToNlAddress(const Address& address, const std::string& what) {
  NlPtr<rtnl_addr> out(::rtnl_addr_alloc());
  NlPtr<nl_addr> local = ToNl(address.ip, address.prefix);
  if (!out || !local) return OutOfMemory(what);
  ::rtnl_addr_set_ifindex(out.get(), address.link);
  RETURN_IF_ERROR(CheckNl(::rtnl_addr_set_local(out.get(), local.get()), what));
  if (address.ip.v6) ::rtnl_addr_set_flags(out.get(), IFA_F_NODAD);
  return out;
}

Result<NlPtr<rtnl_route>> ToNlRoute(const Route& route, const std::string& what) {
  NlPtr<rtnl_route> out(::rtnl_route_alloc());
  NlPtr<nl_addr> destination = ToNl(route.destination.network, route.destination.prefix);
  if (!out || !destination) return OutOfMemory(what);
  ::rtnl_route_set_family(out.get(), static_cast<uint8_t>(route.destination.network.family()));
  RETURN_IF_ERROR(CheckNl(::rtnl_route_set_dst(out.get(), destination.get()), what));
  ::rtnl_route_set_table(out.get(), RT_TABLE_MAIN);
  if (route.protocol != 0) ::rtnl_route_set_protocol(out.get(), route.protocol);
  ::rtnl_route_set_scope(out.get(),
                         route.unreachable || route.gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);
  if (route.source) {
    NlPtr<nl_addr> source = ToNl(*route.source, route.source->MaxPrefix());
    if (!source) return OutOfMemory(what);
    RETURN_IF_ERROR(CheckNl(::rtnl_route_set_pref_src(out.get(), source.get()), what));
  }
  if (route.unreachable) {
    RETURN_IF_ERROR(CheckNl(::rtnl_route_set_type(out.get(), RTN_UNREACHABLE), what));
    return out;
  }
  rtnl_nexthop* hop = ::rtnl_route_nh_alloc();  // owned by the route once added
  if (hop == nullptr) return OutOfMemory(what);
  ::rtnl_route_nh_set_ifindex(hop, route.link);
  if (route.gateway) {
    NlPtr<nl_addr> gateway = ToNl(*route.gateway, route.gateway->MaxPrefix());
    if (gateway) ::rtnl_route_nh_set_gateway(hop, gateway.get());
    ::rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK);
  }
  ::rtnl_route_add_nexthop(out.get(), hop);
  return out;
}

std::optional<Route> FromNlRoute(rtnl_route* route) {
  Route out;
  nl_addr* destination = ::rtnl_route_get_dst(route);
  const std::optional<IpAddress> network = FromNl(destination);
  if (!network) return std::nullopt;
  out.destination.network = *network;
  out.destination.prefix = static_cast<uint8_t>(::nl_addr_get_prefixlen(destination));
  out.unreachable = ::rtnl_route_get_type(route) == RTN_UNREACHABLE;
  out.protocol = ::rtnl_route_get_protocol(route);
  if (nl_addr* source = ::rtnl_route_get_pref_src(route); source != nullptr)
    out.source = FromNl(source);
  if (!out.unreachable && ::rtnl_route_get_nnexthops(route) > 0) {
    rtnl_nexthop* hop = ::rtnl_route_nexthop_n(route, 0);
    out.link = ::rtnl_route_nh_get_ifindex(hop);
    if (nl_addr* gateway = ::rtnl_route_nh_get_gateway(hop); gateway != nullptr) {
      out.gateway = FromNl(gateway);
    }
  }
  return out;
}

// nullptr when something else is told.
const ifinfomsg* LinkIn(const nlmsghdr& told) {
  if (told.nlmsg_type != RTM_NEWLINK || told.nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg)))
    return nullptr;
  return static_cast<const ifinfomsg*>(::nlmsg_data(&told));
}

// nullptr: it has none of that type.
const nlattr* LinkAttribute(const nlmsghdr& told, int type) {
  auto* header = const_cast<nlmsghdr*>(&told);  // libnl reads only
  return ::nlmsg_find_attr(header, sizeof(ifinfomsg), type);
}

// Which ends there are now, as the kernel tells who asked for them.
VethEnds EndsOf(const nlmsghdr& told) {
  VethEnds ends;
  const ifinfomsg* link = LinkIn(told);
  if (link == nullptr) return ends;
  ends.index = link->ifi_index;
  const nlattr* peer = LinkAttribute(told, IFLA_LINK);
  if (peer != nullptr) ends.peer_index = static_cast<int>(::nla_get_u32(peer));
  return ends;
}

}  // namespace

NlPtr<nl_msg> NewMessage(uint16_t type, int flags) {
  constexpr size_t kBytes = 512;
  NlPtr<nl_msg> message(::nlmsg_alloc_size(kBytes));
  if (message && ::nlmsg_put(message.get(), NL_AUTO_PORT, NL_AUTO_SEQ, type, 0, flags) == nullptr)
    message.reset();
  return message;
}

Result<RtnlRequest> RequestVeth(const VethSpec& spec) {
  RtnlRequest out{{}, StrCat("add veth ", spec.name)};
  NlPtr<rtnl_link> link(::rtnl_link_veth_alloc());
  NlPtr<nl_addr> mac = ToNl(spec.mac);
  NlPtr<nl_addr> peer_mac = ToNl(spec.peer_mac);
  if (!link || !mac || !peer_mac) return OutOfMemory(out.what);
  ::rtnl_link_set_name(link.get(), spec.name.c_str());
  ::rtnl_link_set_addr(link.get(), mac.get());
  // rtnl_link_veth_get_peer takes a reference for the caller.
  NlPtr<rtnl_link> peer(::rtnl_link_veth_get_peer(link.get()));
  ::rtnl_link_set_name(peer.get(), spec.peer_name.c_str());
  ::rtnl_link_set_addr(peer.get(), peer_mac.get());
  if (spec.peer_netns >= 0) ::rtnl_link_set_ns_fd(peer.get(), spec.peer_netns);
  for (rtnl_link* end : {link.get(), peer.get()}) {
    if (spec.mtu != 0) ::rtnl_link_set_mtu(end, spec.mtu);
    // The kernel's own choice is one per processor that could ever be, each with its objects in /sys; a veth takes no
    // lock to send, so that more than one make nothing faster.
    ::rtnl_link_set_num_tx_queues(end, 1);
    ::rtnl_link_set_num_rx_queues(end, 1);
  }
  nl_msg* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(
      ::rtnl_link_build_add_request(link.get(), NLM_F_CREATE | NLM_F_EXCL | NLM_F_ECHO, &raw),
      out.what));
  out.message.reset(raw);
  return out;
}

Result<RtnlRequest> RequestLinkUp(int link, const std::string& alias) {
  RtnlRequest out{NewMessage(RTM_NEWLINK), StrCat("set link ", link, " up")};
  nl_msg* const message = out.message.get();
  ifinfomsg change{};
  change.ifi_index = link;
  change.ifi_flags = change.ifi_change = IFF_UP;
  if (message == nullptr || ::nlmsg_append(message, &change, sizeof change, NLMSG_ALIGNTO) != 0 ||
      (!alias.empty() && ::nla_put_string(message, IFLA_IFALIAS, alias.c_str()) != 0)) {
    return OutOfMemory(out.what);
  }
  return out;
}

Result<RtnlRequest> RequestName(int link, const std::string& name) {
  RtnlRequest out{NewMessage(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND),
                  StrCat("name link ", link, " ", name)};
  nl_msg* const message = out.message.get();
  ifinfomsg which{};
  which.ifi_index = link;
  if (message == nullptr || ::nlmsg_append(message, &which, sizeof which, NLMSG_ALIGNTO) != 0) {
    return OutOfMemory(out.what);
  }
  // libnl's own nla_nest_start() does not mark it as one; the kernel asks for that here.
  nlattr* const names = ::nla_nest_start(message, IFLA_PROP_LIST | NLA_F_NESTED);
  if (names == nullptr || ::nla_put_string(message, IFLA_ALT_IFNAME, name.c_str()) != 0) {
    return OutOfMemory(out.what);
  }
  ::nla_nest_end(message, names);
  return out;
}

Result<RtnlRequest> RequestLook(int link, const std::string& name) {
  RtnlRequest out{NewMessage(RTM_GETLINK),
                  name.empty() ? StrCat("look at link ", link) : StrCat("look for link ", name)};
  nl_msg* const message = out.message.get();
  ifinfomsg which{};
  which.ifi_index = link;
  if (message == nullptr || ::nlmsg_append(message, &which, sizeof which, NLMSG_ALIGNTO) != 0 ||
      ::nla_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) != 0 ||
      (!name.empty() && ::nla_put_string(message, IFLA_IFNAME, name.c_str()) != 0)) {
    return OutOfMemory(out.what);
  }
  return out;
}

Result<RtnlRequest> RequestAddress(const Address& address) {
  RtnlRequest out{{}, StrCat("add address ", address.ip.ToString(), " to link ", address.link)};
  ASSIGN_OR_RETURN(const NlPtr<rtnl_addr> wanted, ToNlAddress(address, out.what));
  nl_msg* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(
      ::rtnl_addr_build_add_request(wanted.get(), NLM_F_CREATE | NLM_F_REPLACE, &raw), out.what));
  out.message.reset(raw);
  return out;
}

Result<RtnlRequest> RequestRoute(const Route& route, int flags) {
  const char* verb = (flags & NLM_F_REPLACE) != 0 ? "replace route " : "add route ";
  RtnlRequest out{{}, StrCat(verb, route.destination.ToString())};
  ASSIGN_OR_RETURN(const NlPtr<rtnl_route> wanted, ToNlRoute(route, out.what));
  nl_msg* raw = nullptr;
  RETURN_IF_ERROR(
      CheckNl(::rtnl_route_build_add_request(wanted.get(), NLM_F_CREATE | flags, &raw), out.what));
  out.message.reset(raw);
  return out;
}

void Rtnl::SocketFree::operator()(nl_sock* socket) const { ::nl_socket_free(socket); }
Rtnl::Rtnl(Rtnl&&) noexcept = default;
Rtnl& Rtnl::operator=(Rtnl&&) noexcept = default;
Rtnl::~Rtnl() = default;

Result<Rtnl> Rtnl::Open() {
  Rtnl out(::nl_socket_alloc());
  if (!out.socket_) return OutOfMemory("netlink socket");
  // One receive per answer instead of a look at its size first: the kernel cuts dumps to the
  // buffer.
  ::nl_socket_disable_msg_peek(out.socket_.get());
  RETURN_IF_ERROR(CheckNl(::nl_socket_set_msg_buf_size(out.socket_.get(), kReceiveBytes),
                          "size the buffer of routing netlink"));
  RETURN_IF_ERROR(ConnectNl(out.socket_.get(), NETLINK_ROUTE, "connect to routing netlink"));
  return out;
}

Result<Rtnl> Rtnl::OpenIn(int netns) {
  std::optional<Rtnl> out;
  RETURN_IF_ERROR(RunInNetworkNamespace(netns, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(Rtnl opened, Open());
    out.emplace(std::move(opened));
    return {};
  }));
  return std::move(*out);
}

Result<Link> Rtnl::GetLink(const std::string& name) {
  rtnl_link* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(::rtnl_link_get_kernel(socket_.get(), 0, name.c_str(), &raw),
                          StrCat("get link ", name)));
  NlPtr<rtnl_link> link(raw);
  return ToLink(link.get());
}

Result<bool> Rtnl::HasLink(const std::string& name) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestLook(0, name));
  const Result<void> found = Exchange(socket_.get(), {&request, 1}).front();
  if (found) return true;
  if (found.error().code() == Code::kNotFound) return false;
  return found.error();
}

Result<bool> Rtnl::HasLink(int index) {
  ifreq request{};
  request.ifr_ifindex = index;
  if (::ioctl(::nl_socket_get_fd(socket_.get()), SIOCGIFNAME, &request) == 0) return true;
  if (errno == ENODEV) return false;
  return Error::FromErrno(errno, StrCat("look for link ", index));
}

Result<bool> Rtnl::IsRunning(int index) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestLook(index, ""));
  bool running = false;
  const auto look = [&](const nlmsghdr& told) {
    if (LinkIn(told) == nullptr) return;
    const nlattr* state = LinkAttribute(told, IFLA_OPERSTATE);
    running = state != nullptr && ::nla_get_u8(state) == kOperationallyUp;
  };
  RETURN_IF_ERROR(Exchange(socket_.get(), {&request, 1}, look).front());
  return running;
}

Result<std::vector<Link>> Rtnl::ListLinks() {
  nl_cache* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(::rtnl_link_alloc_cache(socket_.get(), AF_UNSPEC, &raw), "list links"));
  NlPtr<nl_cache> cache(raw);
  std::vector<Link> out;
  for (nl_object* o = ::nl_cache_get_first(raw); o != nullptr; o = ::nl_cache_get_next(o)) {
    out.push_back(ToLink(reinterpret_cast<rtnl_link*>(o)));
  }
  return out;
}

Result<VethEnds> Rtnl::AddVeth(const VethSpec& spec) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestVeth(spec));
  VethEnds ends;
  const auto made = [&](const nlmsghdr& told) { ends = EndsOf(told); };
  RETURN_IF_ERROR(Exchange(socket_.get(), {&request, 1}, made).front());
  if (ends.index != 0 && ends.peer_index != 0) return ends;
  ASSIGN_OR_RETURN(const Link link, GetLink(spec.name));  // before Linux 6.2 nothing is told
  return VethEnds{link.index, link.peer_index};
}

Result<void> Rtnl::SetLinkUp(int index, const std::string& alias) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestLinkUp(index, alias));
  return Exchange(socket_.get(), {&request, 1}).front();
}

Result<void> Rtnl::DeleteLink(int index) {
  const std::string what = StrCat("delete link ", index);
  NlPtr<rtnl_link> link(::rtnl_link_alloc());
  if (!link) return OutOfMemory(what);
  ::rtnl_link_set_ifindex(link.get(), index);
  return AbsentIsSuccess(CheckNl(::rtnl_link_delete(socket_.get(), link.get()), what));
}

Result<void> Rtnl::EnsureAddress(const Address& address) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestAddress(address));
  return Exchange(socket_.get(), {&request, 1}).front();
}

Result<void> Rtnl::DeleteAddress(const Address& address) {
  const std::string what =
      StrCat("delete address ", address.ip.ToString(), " of link ", address.link);
  ASSIGN_OR_RETURN(NlPtr<rtnl_addr> request, ToNlAddress(address, what));
  return AbsentIsSuccess(CheckNl(::rtnl_addr_delete(socket_.get(), request.get(), 0), what));
}

Result<std::vector<Address>> Rtnl::ListAddresses() {
  nl_cache* raw = nullptr;
  RETURN_IF_ERROR(CheckNl(::rtnl_addr_alloc_cache(socket_.get(), &raw), "list addresses"));
  NlPtr<nl_cache> cache(raw);
  std::vector<Address> out;
  for (nl_object* o = ::nl_cache_get_first(raw); o != nullptr; o = ::nl_cache_get_next(o)) {
    auto* address = reinterpret_cast<rtnl_addr*>(o);
    const std::optional<IpAddress> ip = FromNl(::rtnl_addr_get_local(address));
    if (!ip) continue;
    out.push_back({*ip, static_cast<uint8_t>(::rtnl_addr_get_prefixlen(address)),
                   ::rtnl_addr_get_ifindex(address)});
  }
  return out;
}

Result<void> Rtnl::AddRoute(const Route& route) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestRoute(route, NLM_F_EXCL));
  return Exchange(socket_.get(), {&request, 1}).front();
}

Result<void> Rtnl::ReplaceRoute(const Route& route) {
  ASSIGN_OR_RETURN(const RtnlRequest request, RequestRoute(route, NLM_F_REPLACE));
  return Exchange(socket_.get(), {&request, 1}).front();
}

Result<void> Rtnl::DeleteRoute(const Route& route) {
  const std::string what = StrCat("delete route ", route.destination.ToString());
  ASSIGN_OR_RETURN(NlPtr<rtnl_route> request, ToNlRoute(route, what));
  return AbsentIsSuccess(CheckNl(::rtnl_route_delete(socket_.get(), request.get(), 0), what));
}

Result<std::vector<Route>> Rtnl::ListRoutes() {
  nl_cache* raw = nullptr;
  RETURN_IF_ERROR(
      CheckNl(::rtnl_route_alloc_cache(socket_.get(), AF_UNSPEC, 0, &raw), "list routes"));
  NlPtr<nl_cache> cache(raw);
  std::vector<Route> out;
  for (nl_object* o = ::nl_cache_get_first(raw); o != nullptr; o = ::nl_cache_get_next(o)) {
    auto* route = reinterpret_cast<rtnl_route*>(o);
    if (::rtnl_route_get_table(route) != RT_TABLE_MAIN) continue;
    if (auto converted = FromNlRoute(route)) out.push_back(*converted);
  }
  return out;
}

}  // namespace holdfast::sys
