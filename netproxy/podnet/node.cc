// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/node.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/sysctl.h"
#include "netproxy/podnet/address_book.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {
namespace {

constexpr uint32_t kDefaultMtu = 1500;
constexpr uint32_t kMinMtu = 1280;  // RFC 8200 section 5
constexpr char kSavedSysctls[] = "sysctl";
constexpr size_t kMaxSavedBytes = 1 << 20;

// Sets `name` and remembers its first value in `saved`.
class SysctlSetter {
 public:
  SysctlSetter(const DirFd& directory, std::vector<std::string>& warnings)
      : directory_(directory), warnings_(warnings) {}

  // The old value reaches the disk before the new one the kernel.
  void Set(const std::string& name, const std::string& value) {
    auto old = sys::ReadSysctl(name);
    if (old && *old == value) return;
    auto done = old ? Save(name, *old) : Result<void>(std::move(old.error()));
    if (done) done = sys::WriteSysctl(name, value);
    if (!done) warnings_.push_back(done.error().message());
    HOLDFAST_PAUSE_POINT("podnet.node.sysctl_written");
  }

 private:
  Result<void> Save(const std::string& name, const std::string& value) {
    auto text = sys::ReadFileAt(directory_.get(), kSavedSysctls, kMaxSavedBytes);
    if (!text && text.error().sys_errno() != ENOENT) return std::move(text.error());
    std::string all = text ? *text : "";
    if (StrCat("\n", all).find(StrCat("\n", name, " ")) != std::string::npos) return {};
    all += StrCat(name, " ", value, "\n");
    return sys::WriteFileAtomicAt(directory_.get(), kSavedSysctls, all, 0600, /*durable=*/false);
  }

  const DirFd& directory_;
  std::vector<std::string>& warnings_;
};

// A forwarding IPv6 node ignores router advertisements unless accept_ra is 2: links that got their
// routes that way must keep them.
void EnableForwarding(sys::Rtnl& node, bool v6, SysctlSetter& setter,
                      std::vector<std::string>& warnings) {
  setter.Set("net/ipv4/ip_forward", "1");
  if (!v6) return;
  auto forwarding = sys::ReadSysctl("net/ipv6/conf/all/forwarding");
  if (forwarding && *forwarding == "0") {
    auto links = node.ListLinks();
    if (!links) warnings.push_back(links.error().message());
    for (size_t i = 0; links && i < links->size(); ++i) {
      const sys::Link& link = (*links)[i];
      const std::string name = StrCat("net/ipv6/conf/", link.name, "/accept_ra");
      auto accept = sys::ReadSysctl(name);
      if (!link.loopback && link.mac != kNodeMac && accept && *accept == "1") setter.Set(name, "2");
    }
  }
  setter.Set("net/ipv6/conf/all/forwarding", "1");
}

sys::Route UnreachableRoute(const Cidr& range) {
  sys::Route route;
  route.destination = range;
  route.unreachable = true;
  route.protocol = kRouteProtocol;
  return route;
}

sys::Address NodeAddress(const Cidr& range, int loopback) {
  const IpAddress ip = AddressBook::GatewayOf(range);
  return {ip, ip.MaxPrefix(), loopback};
}

Result<void> RestoreSysctls(const DirFd& directory) {
  auto text = sys::ReadFileAt(directory.get(), kSavedSysctls, kMaxSavedBytes);
  if (!text) {
    if (text.error().sys_errno() == ENOENT) return {};
    return std::move(text.error());
  }
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const std::string line = text->substr(begin, end - begin);
    const size_t blank = std::min(line.find(' '), line.size());
    // A link that went away meanwhile took its parameter along.
    auto written =
        sys::WriteSysctl(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
    if (!written && written.error().code() != Code::kNotFound) return written;
    begin = end + 1;
  }
  return sys::RemoveFileAt(directory.get(), kSavedSysctls);
}

}  // namespace

Result<void> EnsureNode(sys::Rtnl& node, const std::vector<Cidr>& ranges, const DirFd& directory,
                        std::vector<std::string>& warnings) {
  const bool v6 =
      std::any_of(ranges.begin(), ranges.end(), [](const Cidr& r) { return r.network.v6; });
  SysctlSetter setter(directory, warnings);
  EnableForwarding(node, v6, setter, warnings);
  ASSIGN_OR_RETURN(const sys::Link loopback, node.GetLink("lo"));
  if (!loopback.up) RETURN_IF_ERROR(node.SetLinkUp(loopback.index));
  for (const Cidr& range : ranges) {
    RETURN_IF_ERROR(node.EnsureAddress(NodeAddress(range, loopback.index)));
    HOLDFAST_PAUSE_POINT("podnet.node.address_added");
    auto added = node.AddRoute(UnreachableRoute(range));
    if (added || added.error().code() != Code::kAlreadyExists) {
      RETURN_IF_ERROR(added);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, node.ListRoutes());
    const bool foreign = std::any_of(routes.begin(), routes.end(), [&](const sys::Route& r) {
      return r.destination == range && r.protocol != kRouteProtocol;
    });
    if (foreign) {
      warnings.push_back(
          StrCat("route ", range.ToString(), ": somebody else has one to the pod CIDR"));
    }
  }
  return {};
}

Result<void> RemoveRange(sys::Rtnl& node, const Cidr& range) {
  ASSIGN_OR_RETURN(const sys::Link loopback, node.GetLink("lo"));
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, node.ListRoutes());
  for (const sys::Route& r : routes) {
    if (r.destination == range && r.unreachable && r.protocol == kRouteProtocol) {
      RETURN_IF_ERROR(node.DeleteRoute(UnreachableRoute(range)));
    }
  }
  return node.DeleteAddress(NodeAddress(range, loopback.index));
}

Result<void> RemoveNode(sys::Rtnl& node, const std::vector<Cidr>& ranges, const DirFd& directory) {
  for (const Cidr& range : ranges) RETURN_IF_ERROR(RemoveRange(node, range));
  return RestoreSysctls(directory);
}

Result<uint32_t> UplinkMtu(sys::Rtnl& node) {
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, node.ListRoutes());
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, node.ListLinks());
  std::optional<uint32_t> mtu;
  for (const sys::Route& r : routes) {
    if (r.destination.prefix != 0 || r.unreachable) continue;
    for (const sys::Link& link : links) {
      if (link.index != r.link || link.loopback) continue;
      mtu = std::min(mtu.value_or(link.mtu), link.mtu);
    }
  }
  return std::max(mtu.value_or(kDefaultMtu), kMinMtu);
}

}  // namespace holdfast::netproxy
