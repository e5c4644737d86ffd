// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/addresses.h"

#include <utility>

#include "holdfast/sys/pause_point.h"

namespace holdfast::netproxy::ipvs {
namespace {

constexpr uint8_t kRouteProtocol = 73;  // free in rt_protos; routes of pods have 72
constexpr char kLoopback[] = "lo";
constexpr char kKubeProxyDevice[] = "kube-ipvs0";

bool IsLinkLocal(const IpAddress& ip) {
  return ip.v6 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
}

}  // namespace

Result<ServiceAddresses> ServiceAddresses::Open(const std::string& device, bool use_dummy) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  return ServiceAddresses(std::move(rtnl), device, use_dummy);
}

Result<void> ServiceAddresses::Prepare() {
  by_route_ = !use_dummy_;
  if (use_dummy_) {
    auto added = rtnl_.AddDummy(device_);
    if (!added && added.error().code() == Code::kUnsupported) {
      by_route_ = true;
    } else if (!added && added.error().code() != Code::kAlreadyExists) {
      return added;
    }
    HOLDFAST_PAUSE_POINT("ipvs.device.added");
  }
  ASSIGN_OR_RETURN(const sys::Link link, rtnl_.GetLink(by_route_ ? kLoopback : device_));
  if (!by_route_ && link.kind != "dummy") {
    return Conflict(device_ + ": somebody else's link has the name of ours");
  }
  link_ = link.index;
  return link.up ? Result<void>() : rtnl_.SetLinkUp(link_);
}

Result<std::set<IpAddress>> ServiceAddresses::ListOn(const std::string& device) {
  std::set<IpAddress> out;
  auto link = rtnl_.GetLink(device);
  if (!link && link.error().code() == Code::kNotFound) return out;
  if (!link) return std::move(link.error());
  ASSIGN_OR_RETURN(const std::vector<sys::Address> addresses, rtnl_.ListAddresses());
  for (const sys::Address& address : addresses) {
    if (address.link == link->index && !IsLinkLocal(address.ip)) out.insert(address.ip);
  }
  return out;
}

Result<std::set<IpAddress>> ServiceAddresses::List() {
  ASSIGN_OR_RETURN(std::set<IpAddress> out, ListOn(device_));
  ASSIGN_OR_RETURN(const std::vector<IpAddress> routes, rtnl_.ListLocalRoutes(kRouteProtocol));
  out.insert(routes.begin(), routes.end());
  return out;
}

Result<std::set<IpAddress>> ServiceAddresses::NodeAddresses() {
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, rtnl_.ListLinks());
  std::set<int> theirs;
  for (const sys::Link& link : links) {
    if (link.name != device_ && link.name != kKubeProxyDevice) theirs.insert(link.index);
  }
  ASSIGN_OR_RETURN(const std::vector<sys::Address> addresses, rtnl_.ListAddresses());
  std::set<IpAddress> out;
  for (const sys::Address& address : addresses) {
    if (theirs.contains(address.link) && !IsLinkLocal(address.ip)) out.insert(address.ip);
  }
  return out;
}

Result<void> ServiceAddresses::Bind(const IpAddress& ip) {
  HOLDFAST_PAUSE_POINT("ipvs.address.bind");
  if (by_route_) return rtnl_.EnsureLocalRoute(ip, link_, kRouteProtocol);
  return rtnl_.EnsureServiceAddress({ip, ip.MaxPrefix(), link_});
}

// Of whichever kind it is.
Result<void> ServiceAddresses::Unbind(const IpAddress& ip) {
  ASSIGN_OR_RETURN(const sys::Link loopback, rtnl_.GetLink(kLoopback));
  RETURN_IF_ERROR(rtnl_.DeleteLocalRoute(ip, loopback.index, kRouteProtocol));
  HOLDFAST_PAUSE_POINT("ipvs.address.unbind");
  if (by_route_) return {};
  return rtnl_.DeleteAddress({ip, ip.MaxPrefix(), link_});
}

Result<bool> ServiceAddresses::RemoveDevice(const std::string& device) {
  auto link = rtnl_.GetLink(device);
  if (!link && link.error().code() == Code::kNotFound) return false;
  if (!link) return std::move(link.error());
  if (link->kind != "dummy") return false;
  RETURN_IF_ERROR(rtnl_.DeleteLink(link->index));
  return true;
}

Result<bool> ServiceAddresses::Remove() {
  ASSIGN_OR_RETURN(const sys::Link loopback, rtnl_.GetLink(kLoopback));
  ASSIGN_OR_RETURN(const std::vector<IpAddress> routes, rtnl_.ListLocalRoutes(kRouteProtocol));
  for (const IpAddress& ip : routes) {
    RETURN_IF_ERROR(rtnl_.DeleteLocalRoute(ip, loopback.index, kRouteProtocol));
  }
  ASSIGN_OR_RETURN(const bool device, RemoveDevice(device_));
  return device || !routes.empty();
}

Result<std::set<IpAddress>> ServiceAddresses::ListKubeProxy() { return ListOn(kKubeProxyDevice); }
Result<bool> ServiceAddresses::RemoveKubeProxy() { return RemoveDevice(kKubeProxyDevice); }

}  // namespace holdfast::netproxy::ipvs
