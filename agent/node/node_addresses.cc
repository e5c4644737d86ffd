// SPDX-License-Identifier: Apache-2.0
// Source: netdevice(7), ip(7).
#include "agent/node/node_addresses.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <string_view>

#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {
namespace {

std::optional<std::string> Text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* raw =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (::inet_ntop(address->sa_family, raw, text.data(), text.size()) == nullptr)
    return std::nullopt;
  return text.data();
}

// Connecting a UDP socket only looks up the route: the kernel picks the source, nothing is sent.
// The targets are documentation addresses (RFC 5737, RFC 3849).
std::optional<std::string> SourceTowards(int family, const char* target) {
  const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  void* raw = family == AF_INET
                  ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&address)->sin_addr)
                  : &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr;
  reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(9);  // the same place in both families
  ::inet_pton(family, target, raw);
  socklen_t size = sizeof address;
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return std::nullopt;
  }
  return Text(reinterpret_cast<sockaddr*>(&address));
}

// SIOCGIFCONF lists IPv4 addresses with their interfaces' names, and nothing of the links that have none, as those of
// pods: getifaddrs(3) reads all links as well.
std::optional<std::string> FirstOfInterfaces(const std::string& own_prefix) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifconf list{};  // without room for them: how much they need
  if (!socket || ::ioctl(socket.get(), SIOCGIFCONF, &list) != 0) return std::nullopt;
  std::vector<ifreq> addresses(static_cast<size_t>(list.ifc_len) / sizeof(ifreq));
  list.ifc_req = addresses.data();
  if (::ioctl(socket.get(), SIOCGIFCONF, &list) != 0) return std::nullopt;
  // One may have gone meanwhile.
  addresses.resize(static_cast<size_t>(list.ifc_len) / sizeof(ifreq));
  for (const ifreq& one : addresses) {
    if (std::string_view(one.ifr_name).starts_with(own_prefix)) continue;
    ifreq flags = one;
    if (::ioctl(socket.get(), SIOCGIFFLAGS, &flags) != 0) continue;
    if ((flags.ifr_flags & IFF_LOOPBACK) == 0) return Text(&one.ifr_addr);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> NodeAddresses(const std::string& own_prefix) {
  std::vector<std::string> out;
  if (auto v4 = SourceTowards(AF_INET, "192.0.2.1")) out.push_back(std::move(*v4));
  if (auto v6 = SourceTowards(AF_INET6, "2001:db8::1")) out.push_back(std::move(*v6));
  if (!out.empty()) return out;
  return {FirstOfInterfaces(own_prefix).value_or("127.0.0.1")};
}

}  // namespace holdfast::agent
