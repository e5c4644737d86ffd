// SPDX-License-Identifier: Apache-2.0
#include "runtime/sys/netlink/nl_internal.h"

#include <netlink/errno.h>
#include <netlink/netlink.h>

#include <cstring>
#include <optional>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

// libnl folds errnos into its own numbers; these are the ones a caller decides by.
int ErrnoOf(int nle) {
  switch (nle) {
    case NLE_EXIST:
      return EEXIST;
    case NLE_OBJ_NOTFOUND:
      return ENOENT;
    case NLE_NODEV:
      return ENODEV;
    case NLE_NOADDR:
      return EADDRNOTAVAIL;
    case NLE_PERM:
      return EPERM;
    case NLE_NOACCESS:
      return EACCES;
    case NLE_INVAL:
      return EINVAL;
    case NLE_OPNOTSUPP:
      return EOPNOTSUPP;
    case NLE_AF_NOSUPPORT:
      return EAFNOSUPPORT;
    case NLE_BUSY:
      return EBUSY;
    case NLE_AGAIN:
      return EAGAIN;
    case NLE_NOMEM:
      return ENOMEM;
    case NLE_RANGE:
      return ERANGE;
    default:
      return 0;
  }
}

}  // namespace

Result<void> CheckNl(int ret, std::string_view what) {
  if (ret >= 0) return {};
  if (const int err = ErrnoOf(-ret); err != 0) return Error::FromErrno(err, what);
  return Internal(StrCat(what, ": netlink: ", ::nl_geterror(ret)));
}

Result<void> ConnectNl(nl_sock* socket, int protocol, std::string_view what) {
  errno = 0;
  const int ret = ::nl_connect(socket, protocol);
  // Its own clean-up may fail after socket(2), but not with these.
  if (ret < 0 && (errno == EMFILE || errno == ENFILE)) return Error::FromErrno(errno, what);
  return CheckNl(ret, what);
}

Result<void> AbsentIsSuccess(Result<void> result) {
  if (result) return result;
  const int err = result.error().sys_errno();
  const bool absent = err == ENOENT || err == ENODEV || err == EADDRNOTAVAIL || err == ESRCH;
  return absent ? Result<void>() : result;
}

NlPtr<nl_addr> ToNl(const MacAddress& mac) {
  return NlPtr<nl_addr>(::nl_addr_build(AF_LLC, mac.data(), mac.size()));
}

std::optional<MacAddress> MacFromNl(const nl_addr* address) {
  MacAddress mac{};
  if (address == nullptr || ::nl_addr_get_len(address) != mac.size()) return std::nullopt;
  std::memcpy(mac.data(), ::nl_addr_get_binary_addr(address), mac.size());
  return mac;
}

NlPtr<nl_addr> ToNl(const IpAddress& ip, uint8_t prefix) {
  NlPtr<nl_addr> out(::nl_addr_build(ip.family(), ip.bytes.data(), ip.size()));
  if (out) ::nl_addr_set_prefixlen(out.get(), prefix);
  return out;
}

std::optional<IpAddress> FromNl(const nl_addr* address) {
  if (address == nullptr) return std::nullopt;
  const int family = ::nl_addr_get_family(address);
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  IpAddress ip;
  ip.v6 = family == AF_INET6;
  // A default route's destination has a family and no bytes.
  if (::nl_addr_get_len(address) == ip.size()) {
    ip = IpAddress::FromBytes(ip.v6, ::nl_addr_get_binary_addr(address));
  }
  return ip;
}

}  // namespace holdfast::sys
