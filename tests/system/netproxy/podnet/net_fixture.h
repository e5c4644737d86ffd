// SPDX-License-Identifier: Apache-2.0
// A node, its pods and an outside world in network namespaces of their own: the test's thread moves
// into a new "node" namespace per test, so that a failure leaves the machine clean.
//
//   outside eth0 192.0.2.1/24 2001:db8::1/64 ── veth ── up0 192.0.2.2/24 2001:db8::2/64 node ──
//   pods
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/instance.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/pod_net.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {

#define ASSERT_OK(expr)                                                    \
  do {                                                                     \
    const auto& holdfast_ok = (expr);                                      \
    ASSERT_TRUE(holdfast_ok.has_value()) << holdfast_ok.error().message(); \
  } while (false)
#define EXPECT_OK(expr)                                                    \
  do {                                                                     \
    const auto& holdfast_ok = (expr);                                      \
    EXPECT_TRUE(holdfast_ok.has_value()) << holdfast_ok.error().message(); \
  } while (false)

constexpr int kTimeoutMs = 5000;
constexpr int kRefusalMs = 300;  // how long a packet that must not arrive is waited for

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }

  static SockAddr Of(const std::string& ip, uint16_t port) {
    SockAddr out;
    const IpAddress a = *IpAddress::Parse(ip);
    if (a.v6) {
      auto* in = reinterpret_cast<sockaddr_in6*>(&out.storage);
      in->sin6_family = AF_INET6;
      in->sin6_port = htons(port);
      std::memcpy(&in->sin6_addr, a.bytes.data(), 16);
      out.size = sizeof *in;
    } else {
      auto* in = reinterpret_cast<sockaddr_in*>(&out.storage);
      in->sin_family = AF_INET;
      in->sin_port = htons(port);
      std::memcpy(&in->sin_addr, a.bytes.data(), 4);
      out.size = sizeof *in;
    }
    return out;
  }
  std::string ip() const {
    if (storage.ss_family == AF_INET6) {
      return IpAddress::FromBytes(true, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr)
          .ToString();
    }
    return IpAddress::FromBytes(false, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr)
        .ToString();
  }
};

inline bool WaitFor(int fd, short events, int timeout_ms) {
  pollfd p{fd, events, 0};
  return ::poll(&p, 1, timeout_ms) == 1;
}

// A socket of `type`, made in `netns` and bound there ("" and 0: not bound); listening for TCP.
inline UniqueFd Socket(int netns, int type, const std::string& ip, uint16_t port, bool listen,
                       bool transparent = false) {
  UniqueFd fd;
  auto made = sys::RunInNetworkNamespace(netns, [&]() -> Result<void> {
    SockAddr a = SockAddr::Of(ip, port);
    fd.Reset(::socket(a.storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (transparent) {
      const bool v6 = a.storage.ss_family == AF_INET6;
      ::setsockopt(fd.get(), v6 ? SOL_IPV6 : SOL_IP,
                   v6 ? 75 /* IPV6_TRANSPARENT */ : 19 /* IP_TRANSPARENT */, &on, sizeof on);
    }
    if (::bind(fd.get(), a.get(), a.size) != 0) return Error::FromErrno(errno, StrCat("bind ", ip));
    if (listen && ::listen(fd.get(), 16) != 0) return Error::FromErrno(errno, "listen");
    return {};
  });
  EXPECT_OK(made);
  return fd;
}

inline std::string AnyOf(const std::string& ip) {
  return ip.find(':') == std::string::npos ? "0.0.0.0" : "::";
}

// What a TCP connection came to: "" and the source that the server saw, or why it failed.
struct Outcome {
  std::string error;
  std::string source;
  bool ok() const { return error.empty(); }
};

// Connects from `client` to ip:port and expects `server` (listening) to get the connection.
inline Outcome Connect(int client, const std::string& ip, uint16_t port, int server,
                       int timeout_ms = kTimeoutMs) {
  UniqueFd fd;
  int err = 0;
  auto started = sys::RunInNetworkNamespace(client, [&]() -> Result<void> {
    SockAddr a = SockAddr::Of(ip, port);
    fd.Reset(::socket(a.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(fd.get(), a.get(), a.size) != 0 && errno != EINPROGRESS) err = errno;
    return {};
  });
  if (!started) return {started.error().message(), ""};
  if (err != 0) return {::strerrorname_np(err), ""};
  if (!WaitFor(fd.get(), POLLOUT, timeout_ms)) return {"timeout", ""};
  socklen_t size = sizeof err;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &err, &size);
  if (err != 0) return {::strerrorname_np(err), ""};
  if (server < 0 || !WaitFor(server, POLLIN, timeout_ms)) return {"connected to somebody else", ""};
  SockAddr peer;
  peer.size = sizeof peer.storage;
  UniqueFd accepted(::accept4(server, peer.get(), &peer.size, SOCK_CLOEXEC));
  // One byte each way: replies find back too.
  char byte = 'x';
  if (::send(fd.get(), &byte, 1, MSG_NOSIGNAL) != 1 ||
      !WaitFor(accepted.get(), POLLIN, timeout_ms) || ::recv(accepted.get(), &byte, 1, 0) != 1 ||
      ::send(accepted.get(), &byte, 1, MSG_NOSIGNAL) != 1 ||
      !WaitFor(fd.get(), POLLIN, timeout_ms) || ::recv(fd.get(), &byte, 1, 0) != 1) {
    return {"no data", ""};
  }
  return {"", peer.ip()};
}

// Sends one datagram from `client` (bound, in whatever namespace) and waits for it at `server`.
// Returns the source that the server saw, "" when nothing came.
inline std::string SendDatagram(int client, const std::string& ip, uint16_t port, int server,
                                int timeout_ms = kTimeoutMs) {
  SockAddr to = SockAddr::Of(ip, port);
  char byte = 'x';
  if (::sendto(client, &byte, 1, 0, to.get(), to.size) != 1) return ::strerrorname_np(errno);
  if (!WaitFor(server, POLLIN, timeout_ms)) return "";
  SockAddr from;
  from.size = sizeof from.storage;
  return ::recvfrom(server, &byte, 1, 0, from.get(), &from.size) == 1 ? from.ip() : "";
}

// What a command of this machine prints in the node's namespace; for the programs that people use
// to look at the result (ip, nft).
inline std::string Command(const std::string& command, int* status = nullptr) {
  std::string out;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  char buffer[4096];
  while (size_t n = ::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  const int code = ::pclose(pipe);
  if (status != nullptr) {
    *status = code;
  } else {
    EXPECT_EQ(code, 0) << command << "\n" << out;
  }
  return out;
}

class NetFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    auto node = sys::CurrentNetworkNamespace();
    ASSERT_OK(node);
    node_ = std::move(*node);
    MakeOutside();
    char pattern[] = "/tmp/holdfast-podnet-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    directory_ = pattern;
    instance_.root_dir = directory_;
    instance_.pod_cidrs = {"10.88.0.0/16", "fd00:88::/64"};
    Reopen();
  }

  void TearDown() override {
    // In every test: people can look at our rules.
    if (net_) {
      Command("nft list ruleset");
      Command("nft -j list ruleset");
    }
    net_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  // As a restarted agent: what is in memory is gone.
  void Reopen() {
    net_.reset();
    auto net = PodNet::Open(instance_);
    ASSERT_OK(net);
    net_ = std::move(*net);
    ASSERT_OK(net_->Ensure());
    const std::vector<std::string> warnings = net_->TakeWarnings();
    EXPECT_TRUE(warnings.empty()) << warnings.front();
  }

  void MakeOutside() {
    auto outside = sys::NewNetworkNamespace();
    ASSERT_OK(outside);
    outside_ = std::move(*outside);
    auto node = sys::Rtnl::Open();
    ASSERT_OK(node);
    ASSERT_OK(node->AddVeth({.name = "up0",
                             .mac = {2, 0, 0, 0, 0, 2},
                             .mtu = uplink_mtu_,
                             .peer_netns = outside_.get(),
                             .peer_name = "eth0",
                             .peer_mac = {2, 0, 0, 0, 0, 1}}));
    Address(*node, "up0", "192.0.2.2", 24);
    Address(*node, "up0", "2001:db8::2", 64);
    auto out = sys::Rtnl::OpenIn(outside_.get());
    ASSERT_OK(out);
    Address(*out, "eth0", "192.0.2.1", 24);
    Address(*out, "eth0", "2001:db8::1", 64);
    DefaultRoute(*node, "up0", "192.0.2.1");
    DefaultRoute(*node, "up0", "2001:db8::1");
    for (int i = 0; i < kTimeoutMs && !node->GetLink("up0")->running; ++i) ::usleep(1000);
  }

  static void Address(sys::Rtnl& rtnl, const std::string& link, const std::string& ip,
                      uint8_t prefix) {
    auto found = rtnl.GetLink(link);
    ASSERT_OK(found);
    ASSERT_OK(rtnl.SetLinkUp(found->index));
    ASSERT_OK(rtnl.EnsureAddress({*IpAddress::Parse(ip), prefix, found->index}));
  }

  static void DefaultRoute(sys::Rtnl& rtnl, const std::string& link, const std::string& gateway) {
    sys::Route route;
    route.gateway = *IpAddress::Parse(gateway);
    route.destination.network.v6 = route.gateway->v6;
    route.link = rtnl.GetLink(link)->index;
    ASSERT_OK(rtnl.ReplaceRoute(route));
  }

  struct Pod {
    PodNetworkRequest request;
    NsFd netns;
    std::vector<std::string> ips;
    const std::string& ip(bool v6) const { return ips[v6 ? 1 : 0]; }
  };

  Pod MakePod(const std::string& name, std::vector<HostPort> ports = {}) {
    Pod pod;
    auto netns = sys::NewNetworkNamespace();
    EXPECT_OK(netns);
    pod.netns = std::move(*netns);
    pod.request.uid = PodUid("uid-" + name);
    pod.request.pod_namespace = "default";
    pod.request.pod_name = name;
    pod.request.network_namespace = pod.netns.get();
    pod.request.host_ports = std::move(ports);
    auto ips = net_->Setup(pod.request);
    EXPECT_OK(ips);
    if (ips) pod.ips = *ips;
    return pod;
  }

  // Without a pod of that name, for requests that must fail.
  Result<std::vector<std::string>> TryPod(const std::string& name,
                                          std::vector<HostPort> ports = {}) {
    auto netns = sys::NewNetworkNamespace();
    EXPECT_OK(netns);
    PodNetworkRequest request;
    request.uid = PodUid("uid-" + name);
    request.pod_namespace = "default";
    request.pod_name = name;
    request.network_namespace = netns->get();
    request.host_ports = std::move(ports);
    return net_->Setup(request);
  }

  // A namespace is destroyed in the background; waits until the node's end of the veth is gone.
  void DropNamespace(Pod& pod) {
    pod.netns.Reset();
    auto rtnl = sys::Rtnl::Open();
    const std::string name = InterfaceOf(pod);
    for (int i = 0; i < kTimeoutMs && rtnl->GetLink(name); ++i) ::usleep(1000);
    EXPECT_FALSE(rtnl->GetLink(name));
  }

  std::string InterfaceOf(const Pod& pod) const {
    return InterfaceName(instance_.interface_prefix, pod.request.uid);
  }

  uint32_t uplink_mtu_ = 1400;
  NsFd node_;
  NsFd outside_;
  std::string directory_;
  model::Instance instance_;
  std::unique_ptr<PodNet> net_;
};

}  // namespace holdfast::netproxy
