// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/bench/measure.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {
namespace {

sockaddr_in SocketAddress(const IpAddress& address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  std::memcpy(&out.sin_addr, address.bytes.data(), 4);
  return out;
}

UniqueFd Listen(const IpAddress& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in at = SocketAddress(address, Probe::kPort);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      ::listen(fd.get(), 64) != 0) {
    Die(StrCat("cannot listen at ", address.ToString()));
  }
  return fd;
}

// An uplink with a default route: there is a way to addresses that only rules know.
constexpr char kNetwork[] =
    "ip link set lo up && ip address add 10.250.0.1/32 dev lo && "
    "ip address add 10.250.0.2/32 dev lo && ip link add up0 type veth peer name up1 && "
    "ip address add 10.251.0.2/24 dev up0 && ip link set up0 up && ip link set up1 up && "
    "ip route add default via 10.251.0.1";

}  // namespace

Probe::Probe() {
  if (std::system(kNetwork) != 0) Die("cannot prepare the network namespace");
  for (size_t i = 0; i < servers_.size(); ++i) servers_[i] = Listen(Endpoint(i));
}

IpAddress Probe::Endpoint(size_t i) { return Ip4(0x0afa0001u + static_cast<uint32_t>(i)); }

int Probe::Try(const IpAddress& address, uint16_t port, double* microseconds) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // A reset ends it: no socket stays behind, whatever the number of connections.
  const linger reset{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  const timeval patience{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const sockaddr_in to = SocketAddress(address, port);
  const auto start = Clock::now();
  const int failed = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  *microseconds = MicrosecondsSince(start);
  int answered = -1;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const UniqueFd accepted(::accept4(servers_[i].get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.valid() && failed == 0) answered = static_cast<int>(i);
  }
  return answered;
}

std::vector<double> Probe::Connect(const IpAddress& address, uint16_t port, size_t n) {
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) {
    double took = 0;
    if (Try(address, port, &took) < 0) Die(StrCat("nobody answers at ", address.ToString()));
    out.push_back(took);
  }
  return out;
}

std::vector<double> Probe::ChangeToAnswer(const IpAddress& address, uint16_t port, size_t n,
                                          const std::function<void(size_t)>& change) {
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) {
    const size_t wanted = i % servers_.size();
    const auto start = Clock::now();
    change(wanted);
    for (double took = 0; Try(address, port, &took) != static_cast<int>(wanted);) {
      if (MicrosecondsSince(start) > 30e6) Die("the new endpoint does not answer");
    }
    out.push_back(MicrosecondsSince(start));
  }
  return out;
}

}  // namespace holdfast::bench
