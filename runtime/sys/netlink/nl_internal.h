// SPDX-License-Identifier: Apache-2.0
// libnl's objects with an owner, and its return values as Result. For .cc files of this folder.
#pragma once

#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/route.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::sys {

template <class T>
struct NlDeleter;
template <>
struct NlDeleter<nl_addr> {
  void operator()(nl_addr* p) const { ::nl_addr_put(p); }
};
template <>
struct NlDeleter<nl_cache> {
  void operator()(nl_cache* p) const { ::nl_cache_free(p); }
};
template <>
struct NlDeleter<rtnl_link> {
  void operator()(rtnl_link* p) const { ::rtnl_link_put(p); }
};
template <>
struct NlDeleter<rtnl_addr> {
  void operator()(rtnl_addr* p) const { ::rtnl_addr_put(p); }
};
template <>
struct NlDeleter<rtnl_route> {
  void operator()(rtnl_route* p) const { ::rtnl_route_put(p); }
};
template <>
struct NlDeleter<rtnl_neigh> {
  void operator()(rtnl_neigh* p) const { ::rtnl_neigh_put(p); }
};

template <class T>
using NlPtr = std::unique_ptr<T, NlDeleter<T>>;

// What one recv(2) is given room for: the kernel fills at most 32 KiB at once.
inline constexpr size_t kReceiveBytes = size_t{64} * 1024;

inline Error OutOfMemory(std::string_view what) { return Error::FromErrno(ENOMEM, what); }

// libnl returns a negative NLE_* number; `what` names the verb and its object.
Result<void> CheckNl(int ret, std::string_view what);

// nl_connect(3) to a NETLINK_* protocol. kResourceExhausted: no descriptor is left, which libnl has no number for.
Result<void> ConnectNl(nl_sock* socket, int protocol, std::string_view what);

// Success when the object to delete was not there.
Result<void> AbsentIsSuccess(Result<void> result);

NlPtr<nl_addr> ToNl(const MacAddress& mac);
std::optional<MacAddress> MacFromNl(const nl_addr* address);
NlPtr<nl_addr> ToNl(const IpAddress& ip, uint8_t prefix);
// Nothing for other families (MPLS, …).
std::optional<IpAddress> FromNl(const nl_addr* address);

}  // namespace holdfast::sys
