// SPDX-License-Identifier: Apache-2.0
// The world that Services are tested in: a node with pods, a second node, and a client outside, in
// network namespaces of their own; servers on every endpoint; one packet sent, and what became of
// it. Knows nothing of a back end.
//
//   outside 192.0.2.1 ─── 192.0.2.2 node 192.0.3.1 ─── 192.0.3.2 peer (second node)
//                             pods 10.88.0.0/16            its pod 10.89.0.2
//   IPv6: 2001:db8::/64, 2001:db8:3::/64, fd00:88::/64, fd00:89::2
//   Both others route cluster IPs (10.96.0.0/16, fd00:96::/64), load balancer and external
//   addresses (198.51.100.0/24, 2001:db8:100::/64) to the node.
#pragma once

#include <map>
#include <set>

#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/model/service_table.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {

// What became of one connection or datagram.
struct Met {
  std::string endpoint;  // which server: "a", "b", …; "refused", "dropped", or an error
  std::string source;    // what the server saw
};

class ServiceWorld : public NetFixture {
 protected:
  static constexpr uint16_t kServerPort = 8080;

  void SetUp() override {
    NetFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    MakePeer();
    for (const char* route : {"10.96.0.0/16", "198.51.100.0/24", "10.88.0.0/16", "192.0.3.0/24"})
      RouteToNode(outside_.get(), "eth0", route, "192.0.2.2");
    for (const char* route :
         {"fd00:96::/64", "2001:db8:100::/64", "fd00:88::/64", "2001:db8:3::/64"})
      RouteToNode(outside_.get(), "eth0", route, "2001:db8::2");
    for (const char* name : {"a", "b"}) AddLocal(name);
    AddLocal("client");
    AddServers("c", peer_.get(), "10.89.0.2", "fd00:89::2");
    // The pods' own rules out of the way: what is seen here comes from Services alone.
    Command("nft delete table ip holdfast; nft delete table ip6 holdfast");
    // Refusals are counted here; the kernel would send six at once and then one a second.
    Command(
        "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit");
    WaitUntilReady();
  }

  void TearDown() override {
    servers_.clear();
    NetFixture::TearDown();
  }

  // --- Building rows ---

  static IpAddress Ip(const std::string& text) { return *IpAddress::Parse(text); }
  model::Endpoint EndpointOf(const std::string& name, bool v6) const {
    return {Ip(addresses_.at(name)[v6 ? 1 : 0]), kServerPort};
  }
  std::vector<model::Endpoint> Endpoints(const std::vector<std::string>& names, bool v6) const {
    std::vector<model::Endpoint> out;
    for (const std::string& name : names) out.push_back(EndpointOf(name, v6));
    std::sort(out.begin(), out.end());
    return out;
  }
  static model::Frontend ClusterIp(const std::string& address, uint16_t port) {
    model::Frontend out;
    out.address = Ip(address);
    out.port = port;
    out.masquerade = model::kFromNode | model::kFromOutside;
    return out;
  }
  static std::shared_ptr<model::ServiceSettings> Settings() {
    auto out = std::make_shared<model::ServiceSettings>();
    for (const char* cidr : {"10.88.0.0/16", "fd00:88::/64"})
      out->local.cidrs.push_back(*Cidr::Parse(cidr));
    for (const char* cidr : {"0.0.0.0/0", "::/0"})
      out->node_port_ranges.push_back(*Cidr::Parse(cidr));
    for (const char* cidr : {"10.96.0.0/16", "fd00:96::/64"})
      out->service_cidrs.push_back(*Cidr::Parse(cidr));
    return out;
  }

  // --- Packets ---

  int NamespaceOf(const std::string& client) const {
    if (client == "outside") return outside_.get();
    if (client == "peer" || client == "c") return peer_.get();
    if (client == "node") return node_.get();
    return pods_.at(client).netns.get();
  }

  Met Try(const std::string& client, const std::string& address, uint16_t port,
          model::L4Protocol protocol = model::L4Protocol::kTcp, const std::string& from = "") {
    return protocol == model::L4Protocol::kTcp ? TryTcp(client, address, port, from)
                                               : TryUdp(client, address, port, from);
  }

  // A connection that stays: the client's end and the server's.
  std::pair<UniqueFd, UniqueFd> Hold(const std::string& client, const std::string& address,
                                     uint16_t port) {
    int error = 0;
    UniqueFd fd = Start(client, address, port, SOCK_STREAM, "", &error);
    bool client_ready = false;
    const Server* server = WaitForServer(true, -1, kTimeoutMs, &client_ready);
    if (server == nullptr) return {};
    UniqueFd accepted(::accept4(server->tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return {std::move(fd), std::move(accepted)};
  }

  // One byte there and back.
  static bool Talks(const std::pair<UniqueFd, UniqueFd>& connection) {
    char byte = 'x';
    return ::send(connection.first.get(), &byte, 1, MSG_NOSIGNAL) == 1 &&
           WaitFor(connection.second.get(), POLLIN, kTimeoutMs) &&
           ::recv(connection.second.get(), &byte, 1, 0) == 1 &&
           ::send(connection.second.get(), &byte, 1, MSG_NOSIGNAL) == 1 &&
           WaitFor(connection.first.get(), POLLIN, kTimeoutMs) &&
           ::recv(connection.first.get(), &byte, 1, 0) == 1;
  }

  // The server that got the next datagram; "nobody" when none came.
  std::string ReceivedBy() {
    bool client_ready = false;
    const Server* server = WaitForServer(false, -1, kRefusalMs, &client_ready);
    if (server == nullptr) return "nobody";
    char byte = 0;
    (void)!::recv(server->udp.get(), &byte, 1, 0);
    return server->name;
  }

  // Whose address that is: "client" for `client`'s own, "node" for any of the node's.
  std::string WhoIs(const std::string& address, const std::string& client) const {
    static const std::set<std::string> kNode = {"192.0.2.2",   "192.0.3.1",     "10.88.0.1",
                                                "2001:db8::2", "2001:db8:3::1", "fd00:88::1"};
    if (kNode.contains(address)) return "node";
    const auto own = addresses_.find(client);
    if (own != addresses_.end() && (own->second[0] == address || own->second[1] == address)) {
      return "client";
    }
    static const std::set<std::string> kOutside = {"192.0.2.1", "2001:db8::1"};
    static const std::set<std::string> kPeer = {"192.0.3.2", "2001:db8:3::2", "10.89.0.2",
                                                "fd00:89::2"};
    if (client == "outside" && kOutside.contains(address)) return "client";
    if (client == "peer" && kPeer.contains(address)) return "client";
    return address;
  }

  NsFd peer_;
  std::map<std::string, Pod> pods_;
  std::map<std::string, std::array<std::string, 2>> addresses_;

 private:
  struct Server {
    std::string name;
    bool v6 = false;
    UniqueFd tcp;
    UniqueFd udp;
  };

  static void RouteToNode(int netns, const std::string& link, const std::string& destination,
                          const std::string& gateway) {
    auto rtnl = sys::Rtnl::OpenIn(netns);
    ASSERT_OK(rtnl);
    sys::Route route;
    route.destination = *Cidr::Parse(destination);
    route.gateway = Ip(gateway);
    route.link = rtnl->GetLink(link)->index;
    ASSERT_OK(rtnl->ReplaceRoute(route));
  }

  void MakePeer() {
    auto peer = sys::NewNetworkNamespace();
    ASSERT_OK(peer);
    peer_ = std::move(*peer);
    auto node = sys::Rtnl::Open();
    ASSERT_OK(node);
    ASSERT_OK(node->AddVeth({.name = "peer0",
                             .mac = {2, 0, 0, 0, 1, 2},
                             .mtu = uplink_mtu_,
                             .peer_netns = peer_.get(),
                             .peer_name = "eth0",
                             .peer_mac = {2, 0, 0, 0, 1, 1}}));
    Address(*node, "peer0", "192.0.3.1", 24);
    Address(*node, "peer0", "2001:db8:3::1", 64);
    auto inside = sys::Rtnl::OpenIn(peer_.get());
    ASSERT_OK(inside);
    Address(*inside, "eth0", "192.0.3.2", 24);
    Address(*inside, "eth0", "2001:db8:3::2", 64);
    Address(*inside, "lo", "10.89.0.2", 32);
    Address(*inside, "lo", "fd00:89::2", 128);
    DefaultRoute(*inside, "eth0", "192.0.3.1");
    DefaultRoute(*inside, "eth0", "2001:db8:3::1");
    RouteToNode(node_.get(), "peer0", "10.89.0.0/16", "192.0.3.2");
    RouteToNode(node_.get(), "peer0", "fd00:89::/64", "2001:db8:3::2");
    for (int i = 0;
         i < kTimeoutMs && !(node->GetLink("peer0")->running && inside->GetLink("eth0")->running);
         ++i) {
      ::usleep(1000);
    }
  }

  void AddLocal(const std::string& name) {
    Pod pod = MakePod(name);
    ASSERT_EQ(pod.ips.size(), 2u);
    AddServers(name, pod.netns.get(), pod.ips[0], pod.ips[1]);
    pods_[name] = std::move(pod);
  }

  void AddServers(const std::string& name, int netns, const std::string& v4,
                  const std::string& v6) {
    addresses_[name] = {v4, v6};
    for (const bool six : {false, true}) {
      const std::string any = six ? v6 : v4;
      servers_.push_back({name, six, Socket(netns, SOCK_STREAM, any, kServerPort, true),
                          Socket(netns, SOCK_DGRAM, any, kServerPort, false)});
    }
  }

  // Neighbours are known, new IPv6 addresses are usable: everybody reaches every server directly.
  void WaitUntilReady() {
    for (const auto& [name, ips] : addresses_) {
      for (const char* from : {"node", "client", "outside"}) {
        for (const std::string& ip : ips) {
          if (name == "c" && std::string(from) == "outside") continue;  // it has no route there
          for (int i = 0; i < 20 && Try(from, ip, kServerPort).endpoint != name; ++i) continue;
        }
      }
    }
  }

  // The first of the servers' sockets that can be read, or null after the time.
  const Server* WaitForServer(bool tcp, int client, int timeout_ms, bool* client_ready) {
    std::vector<pollfd> polls;
    for (const Server& server : servers_)
      polls.push_back({tcp ? server.tcp.get() : server.udp.get(), POLLIN, 0});
    polls.push_back({client, POLLIN, 0});
    *client_ready = false;
    if (::poll(polls.data(), polls.size(), timeout_ms) <= 0) return nullptr;
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (polls[i].revents & POLLIN) return &servers_[i];
    }
    *client_ready = true;
    return nullptr;
  }

  // A connected (UDP) or connecting (TCP) socket.
  UniqueFd Start(const std::string& client, const std::string& address, uint16_t port, int type,
                 const std::string& from, int* error) {
    UniqueFd fd;
    *error = 0;
    auto started = sys::RunInNetworkNamespace(NamespaceOf(client), [&]() -> Result<void> {
      SockAddr to = SockAddr::Of(address, port);
      fd.Reset(::socket(to.storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!from.empty()) {
        SockAddr own = SockAddr::Of(from, 0);
        if (::bind(fd.get(), own.get(), own.size) != 0) *error = errno;
      }
      if (*error == 0 && ::connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS)
        *error = errno;
      return {};
    });
    EXPECT_OK(started);
    return fd;
  }

  static Met Failed(int error) {
    if (error == ECONNREFUSED) return {"refused", ""};
    return {::strerrorname_np(error), ""};
  }

  Met TryTcp(const std::string& client, const std::string& address, uint16_t port,
             const std::string& from) {
    int error = 0;
    const UniqueFd fd = Start(client, address, port, SOCK_STREAM, from, &error);
    if (error != 0) return Failed(error);
    // Over veths an ICMPv6 refusal arrives while connect() still owns the socket, which then takes
    // only the next one to heart: a second later, when it sends again.
    const bool slow = address.find(':') != std::string::npos;
    if (!WaitFor(fd.get(), POLLOUT, slow ? 1500 : kRefusalMs)) return {"dropped", ""};
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Failed(error);
    bool client_ready = false;
    const Server* server = WaitForServer(true, -1, kTimeoutMs, &client_ready);
    if (server == nullptr) return {"somebody else", ""};
    SockAddr peer;
    peer.size = sizeof peer.storage;
    const UniqueFd accepted(
        ::accept4(server->tcp.get(), peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    char byte = 'x';
    if (::send(fd.get(), &byte, 1, MSG_NOSIGNAL) != 1 ||
        !WaitFor(accepted.get(), POLLIN, kTimeoutMs) || ::recv(accepted.get(), &byte, 1, 0) != 1 ||
        ::send(accepted.get(), &byte, 1, MSG_NOSIGNAL) != 1 ||
        !WaitFor(fd.get(), POLLIN, kTimeoutMs) || ::recv(fd.get(), &byte, 1, 0) != 1) {
      return {"no data", ""};
    }
    return {server->name, peer.ip()};
  }

  Met TryUdp(const std::string& client, const std::string& address, uint16_t port,
             const std::string& from) {
    int error = 0;
    const UniqueFd fd = Start(client, address, port, SOCK_DGRAM, from, &error);
    if (error != 0) return Failed(error);
    char byte = 'x';
    if (::send(fd.get(), &byte, 1, MSG_NOSIGNAL) != 1) {
      // A rule on the way out stopped it; whether it also answered is told by the next call.
      if (errno != EPERM) return Failed(errno);
      return ::recv(fd.get(), &byte, 1, 0) < 0 && errno == ECONNREFUSED ? Failed(errno)
                                                                        : Met{"dropped", ""};
    }
    bool client_ready = false;
    const Server* server = WaitForServer(false, fd.get(), kRefusalMs, &client_ready);
    if (client_ready) return ::recv(fd.get(), &byte, 1, 0) < 0 ? Failed(errno) : Met{"answer", ""};
    if (server == nullptr) return {"dropped", ""};
    SockAddr peer;
    peer.size = sizeof peer.storage;
    ::recvfrom(server->udp.get(), &byte, 1, 0, peer.get(), &peer.size);
    ::sendto(server->udp.get(), &byte, 1, 0, peer.get(), peer.size);
    if (!WaitFor(fd.get(), POLLIN, kTimeoutMs) || ::recv(fd.get(), &byte, 1, 0) != 1)
      return {"no data", ""};
    return {server->name, peer.ip()};
  }

  std::vector<Server> servers_;
};

}  // namespace holdfast::netproxy
