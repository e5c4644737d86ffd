// SPDX-License-Identifier: Apache-2.0
#include "agent/stream/dial.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"

namespace holdfast::agent {
namespace {

// On the loopback nobody is far away; a listener's queue may be full, though.
constexpr std::chrono::milliseconds kDialLimit{5000};

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  std::string text;
};

Address Loopback4(uint16_t port) {
  Address address{{}, sizeof(sockaddr_in), StrCat("127.0.0.1:", port)};
  const sockaddr_in in{AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {}};
  std::memcpy(&address.bytes, &in, sizeof in);
  return address;
}

Address Loopback6(uint16_t port) {
  Address address{{}, sizeof(sockaddr_in6), StrCat("[::1]:", port)};
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  in.sin6_addr = in6addr_loopback;
  std::memcpy(&address.bytes, &in, sizeof in);
  return address;
}

Error DialFailed(const Address& address, int error) {
  std::string why = ::strerror(error);
  if (!why.empty()) why[0] = ToLower(why[0]);
  return Unavailable(StrCat("dial tcp ", address.text, ": connect: ", why));
}

// How a connection that was begun came out.
int AwaitConnect(int socket) {
  pollfd asked{socket, POLLOUT, 0};
  const int ready = ::poll(&asked, 1, static_cast<int>(kDialLimit.count()));
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

Result<UniqueFd> Dial(const Address& address) {
  UniqueFd socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return DialFailed(address, errno);
  int error = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) !=
      0) {
    error = errno == EINPROGRESS ? AwaitConnect(socket.get()) : errno;
  }
  if (error != 0) return DialFailed(address, error);
  return socket;
}

Result<UniqueFd> DialHere(uint16_t port) {
  auto first = Dial(Loopback4(port));
  if (first) return first;
  auto second = Dial(Loopback6(port));
  return second ? std::move(second) : std::move(first);
}

}  // namespace

Result<UniqueFd> DialLoopback(int netns, uint16_t port) {
  if (netns < 0) return DialHere(port);
  UniqueFd socket;
  RETURN_IF_ERROR(sys::RunInNetworkNamespace(netns, [&socket, port]() -> Result<void> {
    ASSIGN_OR_RETURN(socket, DialHere(port));
    return {};
  }));
  return socket;
}

Result<SessionEnds> EndsOfSocket(UniqueFd socket) {
  SessionEnds ends;
  ends.socket = true;
  ends.output.Reset(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!ends.output) return Error::FromErrno(errno, "dup a forwarded connection");
  ends.input = std::move(socket);
  return ends;
}

}  // namespace holdfast::agent
