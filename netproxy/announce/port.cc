// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "netproxy/announce/filter.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr size_t kLongestProgram = 4096;  // BPF_MAXINSNS

// The filter is there before the first frame can be.
Result<UniqueFd> OpenPacketSocket(int index, uint16_t type, std::vector<sock_filter> program) {
  if (program.size() > kLongestProgram) return InvalidArgument("too many ranges for one filter");
  UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Error::FromErrno(errno, "socket AF_PACKET");
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) {
    return Error::FromErrno(errno, "SO_ATTACH_FILTER");
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(type);
  address.sll_ifindex = index;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error::FromErrno(errno, "bind AF_PACKET");
  }
  return fd;
}

bool HasFamily(std::span<const Cidr> ranges, bool v6) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [v6](const Cidr& range) { return range.network.v6 == v6; });
}

Result<ifreq> Request(const std::string& interface) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) {
    return InvalidArgument(StrCat("interface name \"", interface, "\" is too long"));
  }
  std::copy(interface.begin(), interface.end(), request.ifr_name);
  return request;
}

}  // namespace

Result<Port> Port::Open(const std::string& interface, std::span<const Cidr> ranges) {
  ASSIGN_OR_RETURN(ifreq request, Request(interface));
  const bool v6 = HasFamily(ranges, true);
  UniqueFd control(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return Error::FromErrno(errno, v6 ? "socket AF_INET6" : "socket AF_INET");
  if (::ioctl(control.get(), SIOCGIFINDEX, &request) != 0) {
    if (errno == ENODEV) return NotFound("there is no such interface");
    return Error::FromErrno(errno, "SIOCGIFINDEX");
  }
  Port port(interface, request.ifr_ifindex);
  port.control_ = std::move(control);
  if (::ioctl(port.control_.get(), SIOCGIFHWADDR, &request) != 0) {
    return Error::FromErrno(errno, "SIOCGIFHWADDR");
  }
  if (request.ifr_hwaddr.sa_family != ARPHRD_ETHER) return Unsupported("it is no Ethernet");
  if (HasFamily(ranges, false)) {
    ASSIGN_OR_RETURN(port.arp_, OpenPacketSocket(port.index_, ETH_P_ARP, ArpFilter(ranges)));
  }
  if (v6) {
    ASSIGN_OR_RETURN(port.neighbours_,
                     OpenPacketSocket(port.index_, ETH_P_IPV6, NeighbourFilter(ranges)));
  }
  return port;
}

Result<PortState> Port::Look() const {
  PortState state;
  ASSIGN_OR_RETURN(ifreq request, Request(interface_));
  if (::ioctl(control_.get(), SIOCGIFINDEX, &request) != 0 || request.ifr_ifindex != index_) {
    return NotFound("the interface went away");
  }
  if (::ioctl(control_.get(), SIOCGIFHWADDR, &request) != 0) {
    return Error::FromErrno(errno, "SIOCGIFHWADDR");
  }
  std::memcpy(state.mac.data(), request.ifr_hwaddr.sa_data, state.mac.size());
  if (::ioctl(control_.get(), SIOCGIFFLAGS, &request) != 0) {
    return Error::FromErrno(errno, "SIOCGIFFLAGS");
  }
  state.running = (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0;
  if (neighbours_) {
    ASSIGN_OR_RETURN(state.link_local, LinkLocal());
  }
  return state;
}

// Lines of "address index prefix scope flags name" in hexadecimal.
Result<IpAddress> Port::LinkLocal() const {
  constexpr unsigned kLinkScope = 0x20;
  constexpr unsigned kNotUsable = 0x08 | 0x40;  // IFA_F_DADFAILED, IFA_F_TENTATIVE
  IpAddress out;
  out.v6 = true;
  ASSIGN_OR_RETURN(const std::string text,
                   sys::ReadFileAt(AT_FDCWD, "/proc/thread-self/net/if_inet6", 1 << 20));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string digits;
    unsigned index = 0;
    unsigned prefix = 0;
    unsigned scope = 0;
    unsigned flags = 0;
    words >> digits >> std::hex >> index >> prefix >> scope >> flags;
    if (!words || digits.size() != 32 || static_cast<int>(index) != index_) continue;
    if (scope != kLinkScope || (flags & kNotUsable) != 0) continue;
    for (size_t i = 0; i < 16; ++i) {
      out.bytes[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
    }
    return out;
  }
  return out;
}

Result<size_t> Port::Receive(int fd, std::span<uint8_t> buffer) const {
  for (;;) {
    sockaddr_ll from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(fd, buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) {
      if (errno == EINTR) continue;
      // ENETDOWN comes once when the link goes down: Look() tells of it.
      if (errno == EAGAIN || errno == ENETDOWN) return 0;
      return Error::FromErrno(errno, "recvfrom AF_PACKET");
    }
    // Frames for other machines come along while somebody listens to everything on the interface.
    if (from.sll_pkttype == PACKET_OTHERHOST || from.sll_pkttype == PACKET_OUTGOING) continue;
    if (got > 0) return static_cast<size_t>(got);
  }
}

Result<void> Port::Send(const Frame& frame) const {
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = index_;
  to.sll_halen = 6;
  std::memcpy(to.sll_addr, frame.data(), 6);
  std::memcpy(&to.sll_protocol, frame.data() + 12, 2);
  const int fd = arp_ ? arp_.get() : neighbours_.get();
  for (;;) {
    const ssize_t sent = ::sendto(fd, frame.data(), frame.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&to), sizeof to);
    if (sent >= 0) return {};
    if (errno != EINTR) return Error::FromErrno(errno, "sendto AF_PACKET");
  }
}

// Joined as a program would, so that switches which watch for memberships pass questions on.
Result<void> Port::SetGroups(const std::set<IpAddress>& groups) {
  const auto change = [this](const IpAddress& group, int option) -> Result<void> {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), 16);
    request.ipv6mr_interface = static_cast<unsigned>(index_);
    if (::setsockopt(control_.get(), IPPROTO_IPV6, option, &request, sizeof request) == 0) {
      return {};
    }
    return Error::FromErrno(errno, StrCat("membership of ", group.ToString()));
  };
  for (const IpAddress& group : groups) {
    if (groups_.contains(group)) continue;
    RETURN_IF_ERROR(change(group, IPV6_JOIN_GROUP));
    groups_.insert(group);
  }
  for (auto at = groups_.begin(); at != groups_.end();) {
    if (groups.contains(*at)) {
      ++at;
    } else {
      RETURN_IF_ERROR(change(*at, IPV6_LEAVE_GROUP));
      at = groups_.erase(at);
    }
  }
  return {};
}

}  // namespace holdfast::netproxy::announce
