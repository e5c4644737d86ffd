// SPDX-License-Identifier: Apache-2.0
// Who gets which packet: Services of every kind and policy, and one table of what clients must
// meet. The same for every back end; where one differs on purpose, the row says which, what and
// why.
//
// Addresses are written as "vip:N" (cluster IP), "lb:N" (load balancer or external address),
// "pod:X", "node", "node-peer" (towards the second node), "gateway" (towards pods) and "loopback".
#pragma once

#include <string>
#include <vector>

#include "holdfast/model/service_table.h"
#include "tests/system/netproxy/services/world.h"

namespace holdfast::netproxy {

inline std::string AddressOf(const std::string& name, bool v6) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (kind == "vip") return (v6 ? "fd00:96::" : "10.96.0.") + rest;
  if (kind == "lb") return (v6 ? "2001:db8:100::" : "198.51.100.") + rest;
  if (kind == "node") return v6 ? "2001:db8::2" : "192.0.2.2";
  if (kind == "node-peer") return v6 ? "2001:db8:3::1" : "192.0.3.1";
  if (kind == "gateway") return v6 ? "fd00:88::1" : "10.88.0.1";
  return v6 ? "::1" : "127.0.0.1";
}

// A port of a service, short.
struct TestService {
  const char* name;
  model::L4Protocol protocol;
  std::vector<std::string> endpoints;
  const char* cluster_ip;       // port 80 (TCP), 53 (UDP)
  bool internal_local = false;  // internalTrafficPolicy: Local
  bool external_local = false;  // externalTrafficPolicy: Local
  uint16_t node_port = 0;
  const char* load_balancer = nullptr;
  const char* external = nullptr;
  bool restricted = false;
  std::vector<const char*> ranges = {};  // of the same family as the row
  bool masquerade_all = false;
};

inline const std::vector<TestService>& TestServices() {
  using enum model::L4Protocol;
  static const std::vector<TestService> kServices = {
      {"t/cluster", kTcp, {"a", "b", "c"}, "vip:10"},
      {"t/cluster:dns", kUdp, {"a", "b", "c"}, "vip:10"},
      {"t/itp-local", kTcp, {"a", "b", "c"}, "vip:11", true},
      {"t/itp-local:dns", kUdp, {"b", "c"}, "vip:11", true},
      {"t/remote", kTcp, {"c"}, "vip:12"},
      {"t/remote:dns", kUdp, {"c"}, "vip:12"},
      {"t/itp-remote", kTcp, {"c"}, "vip:13", true},
      {"t/itp-remote:dns", kUdp, {"c"}, "vip:13", true},
      {"t/empty", kTcp, {}, "vip:14", false, false, 30085, "lb:24", "lb:31"},
      {"t/empty:dns", kUdp, {}, "vip:14", false, false, 30054},
      {"t/np", kTcp, {"c"}, "vip:15", false, false, 30080},
      {"t/np:dns", kUdp, {"c"}, "vip:15", false, false, 30053},
      {"t/np-local", kTcp, {"a", "c"}, "vip:16", false, true, 30081},
      {"t/np-local:dns", kUdp, {"a", "c"}, "vip:16", false, true, 30055},
      {"t/np-gone", kTcp, {"c"}, "vip:17", false, true, 30082},
      {"t/np-gone:dns", kUdp, {"c"}, "vip:17", false, true, 30056},
      {"t/lb", kTcp, {"c"}, "vip:18", false, false, 30083, "lb:20"},
      {"t/lb:dns", kUdp, {"a"}, "vip:18", false, false, 30057, "lb:20"},
      {"t/lb-local", kTcp, {"a", "c"}, "vip:19", false, true, 30084, "lb:21"},
      {"t/lb-gone", kTcp, {"c"}, "vip:20", false, true, 30088, "lb:25"},
      {"t/lb-ranges",
       kTcp,
       {"a"},
       "vip:21",
       false,
       false,
       30086,
       "lb:22",
       nullptr,
       true,
       {"192.0.2.0/24", "2001:db8::/64", "10.89.0.2/32", "fd00:89::2/128"}},
      {"t/lb-nobody", kTcp, {"a"}, "vip:22", false, false, 30087, "lb:23", nullptr, true},
      {"t/external", kTcp, {"b"}, "vip:23", false, false, 0, nullptr, "lb:30"},
      {"t/external-local", kTcp, {"b", "c"}, "vip:24", false, true, 0, nullptr, "lb:32"},
      {"t/self", kTcp, {"a"}, "vip:25", false, false, 30089, "lb:26"},
      {"t/self:dns", kUdp, {"a"}, "vip:25"},
      {"t/masquerade", kTcp, {"b"}, "vip:26", false, false, 0, nullptr, nullptr, false, {}, true},
  };
  return kServices;
}

struct Exception {
  const char* back_end;  // "iptables": both families, "iptables4": IPv4 alone
  const char* meets;
  const char* source;
  const char* why;
};

struct Expectation {
  const char* client;  // "client" is a pod without a service, "a" and "b" are endpoints
  const char* address;
  uint16_t port;
  const char* protocol;
  const char* meets;   // endpoints, each of which must be met; or "refused", "dropped"
  const char* source;  // "client": its own address, "node": one of the node's, "-": not looked at
  std::vector<Exception> exceptions = {};
};

inline const std::vector<Expectation>& Expectations() {
  static const std::vector<Expectation> kTable = {
      // Cluster IP, policy Cluster: pods keep their address, all others come from the node.
      {"client", "vip:10", 80, "tcp", "a,b,c", "client"},
      {"client", "vip:10", 53, "udp", "a,b,c", "client"},
      {"node", "vip:10", 80, "tcp", "a,b,c", "node"},
      {"node", "vip:10", 53, "udp", "a,b,c", "node"},
      {"outside", "vip:10", 80, "tcp", "a,b,c", "node"},
      {"outside", "vip:10", 53, "udp", "a,b,c", "node"},
      {"peer", "vip:10", 80, "tcp", "a,b,c", "node"},
      {"peer", "vip:10", 53, "udp", "a,b,c", "node"},
      {"a", "vip:10", 80, "tcp", "a,b,c", "-"},
      {"a", "vip:10", 53, "udp", "a,b,c", "-"},
      {"b", "vip:10", 80, "tcp", "a,b,c", "-"},
      {"client", "vip:12", 80, "tcp", "c", "client"},
      {"client", "vip:12", 53, "udp", "c", "client"},
      {"node", "vip:12", 80, "tcp", "c", "node"},
      {"outside", "vip:12", 80, "tcp", "c", "node"},
      {"outside", "vip:12", 53, "udp", "c", "node"},
      {"client", "vip:26", 80, "tcp", "b", "node"},  // masqueradeAll
      {"outside", "vip:26", 80, "tcp", "b", "node"},
      // Hairpin: a pod that meets itself sees the node.
      {"a", "vip:25", 80, "tcp", "a", "node"},
      {"a", "vip:25", 53, "udp", "a", "node"},
      {"a", "node", 30089, "tcp", "a", "node"},
      {"a", "lb:26", 80, "tcp", "a", "node"},
      {"b", "vip:25", 80, "tcp", "a", "client"},
      {"b", "vip:25", 53, "udp", "a", "client"},
      // internalTrafficPolicy Local: endpoints of this node, or nothing.
      {"client", "vip:11", 80, "tcp", "a,b", "client"},
      {"node", "vip:11", 80, "tcp", "a,b", "node"},
      {"outside", "vip:11", 80, "tcp", "a,b", "node"},
      {"peer", "vip:11", 80, "tcp", "a,b", "node"},
      {"client", "vip:11", 53, "udp", "b", "client"},
      {"node", "vip:11", 53, "udp", "b", "node"},
      {"client", "vip:13", 80, "tcp", "dropped", ""},
      {"node", "vip:13", 80, "tcp", "dropped", ""},
      {"client", "vip:13", 53, "udp", "dropped", ""},
      {"outside", "vip:13", 53, "udp", "dropped", ""},
      // No endpoint at all.
      {"client", "vip:14", 80, "tcp", "refused", ""},
      {"node", "vip:14", 80, "tcp", "refused", ""},
      {"outside", "vip:14", 80, "tcp", "refused", ""},
      {"client", "vip:14", 53, "udp", "refused", ""},
      {"node", "vip:14", 53, "udp", "refused", ""},
      {"outside", "vip:14", 53, "udp", "refused", ""},
      {"outside", "node", 30085, "tcp", "refused", ""},
      {"client", "node", 30085, "tcp", "refused", ""},
      {"outside", "node", 30054, "udp", "refused", ""},
      {"outside", "lb:24", 80, "tcp", "refused", ""},
      {"client", "lb:24", 80, "tcp", "refused", ""},
      {"outside", "lb:31", 80, "tcp", "refused", ""},
      // A cluster IP's other ports, and addresses that no service has.
      {"client",
       "vip:10",
       81,
       "tcp",
       "refused",
       "",
       {{"iptables", "-", "", "has no rule for it: the packet leaves by the default route"}}},
      {"client",
       "vip:10",
       80,
       "udp",
       "refused",
       "",
       {{"iptables", "-", "", "has no rule for it: the packet leaves by the default route"}}},
      {"client",
       "vip:200",
       80,
       "udp",
       "dropped",
       "",
       {{"iptables", "-", "", "has no rule for it: the packet leaves by the default route"}}},
      // Node ports, policy Cluster: always masqueraded.
      {"outside", "node", 30080, "tcp", "c", "node"},
      {"outside", "node", 30053, "udp", "c", "node"},
      {"outside", "node-peer", 30080, "tcp", "c", "node"},
      {"client", "node", 30080, "tcp", "c", "node"},
      {"client", "gateway", 30080, "tcp", "c", "node"},
      {"client", "node", 30053, "udp", "c", "node"},
      {"node", "node", 30080, "tcp", "c", "node"},
      {"node", "node-peer", 30080, "tcp", "c", "node"},
      {"peer", "node-peer", 30080, "tcp", "c", "node"},
      {"outside", "node", 30089, "tcp", "a", "node"},
      {"outside",  // node ports are the node's only
       "vip:15",
       30080,
       "udp",
       "refused",
       "",
       {{"iptables", "-", "", "has no rule for it: the packet leaves by the default route"}}},
      {"node",
       "loopback",
       30080,
       "tcp",
       "refused",
       "",
       {{"iptables4", "c", "node", "localhost node ports are on by default, IPv4 only"}}},
      // Node ports, policy Local: from outside only this node's endpoints, which see the client.
      {"outside", "node", 30081, "tcp", "a", "client"},
      {"outside", "node", 30055, "udp", "a", "client"},
      {"peer", "node-peer", 30081, "tcp", "a", "client"},
      {"client", "node", 30081, "tcp", "a,c", "client"},
      {"client", "node", 30055, "udp", "a,c", "client"},
      {"node", "node", 30081, "tcp", "a,c", "node"},
      {"outside", "node", 30082, "tcp", "dropped", ""},
      {"outside", "node", 30056, "udp", "dropped", ""},
      {"client", "node", 30082, "tcp", "c", "client"},
      {"client", "node", 30056, "udp", "c", "client"},
      {"node", "node", 30082, "tcp", "c", "node"},
      {"outside", "vip:16", 80, "tcp", "a,c", "node"},  // its cluster IP is not concerned
      {"outside", "vip:17", 80, "tcp", "c", "node"},
      // Load balancer addresses.
      {"outside", "lb:20", 80, "tcp", "c", "node"},
      {"outside", "lb:20", 53, "udp", "a", "node"},
      {"client", "lb:20", 80, "tcp", "c", "node"},
      {"node", "lb:20", 80, "tcp", "c", "node"},
      {"peer", "lb:20", 80, "tcp", "c", "node"},
      {"outside", "node", 30083, "tcp", "c", "node"},
      {"outside", "lb:21", 80, "tcp", "a", "client"},
      {"peer", "lb:21", 80, "tcp", "a", "client"},
      {"client", "lb:21", 80, "tcp", "a,c", "client"},
      {"node", "lb:21", 80, "tcp", "a,c", "node"},
      {"outside", "node", 30084, "tcp", "a", "client"},
      {"outside", "lb:25", 80, "tcp", "dropped", ""},
      {"client", "lb:25", 80, "tcp", "c", "client"},
      {"node", "lb:25", 80, "tcp", "c", "node"},
      // Source ranges: for the load balancer's address, and for nothing else.
      {"outside", "lb:22", 80, "tcp", "a", "node"},
      {"peer", "lb:22", 80, "tcp", "dropped", ""},
      {"c", "lb:22", 80, "tcp", "a", "node"},
      {"client", "lb:22", 80, "tcp", "dropped", ""},
      {"node", "lb:22", 80, "tcp", "a", "node"},
      {"peer", "node-peer", 30086, "tcp", "a", "node"},
      {"client", "vip:21", 80, "tcp", "a", "client"},
      {"outside", "lb:23", 80, "tcp", "dropped", ""},
      {"node", "lb:23", 80, "tcp", "dropped", ""},
      {"outside", "node", 30087, "tcp", "a", "node"},
      // External addresses.
      {"outside", "lb:30", 80, "tcp", "b", "node"},
      {"client", "lb:30", 80, "tcp", "b", "node"},
      {"node", "lb:30", 80, "tcp", "b", "node"},
      {"outside", "lb:32", 80, "tcp", "b", "client"},
      {"client", "lb:32", 80, "tcp", "b,c", "client"},
      {"node", "lb:32", 80, "tcp", "b,c", "node"},
      // What is no service is left alone.
      {"client", "pod:a", 8080, "tcp", "a", "client"},
      {"client", "pod:c", 8080, "tcp", "c", "client"},
      {"outside", "pod:b", 8080, "udp", "b", "client"},
      {"node", "pod:a", 8080, "tcp", "a", "node"},
  };
  return kTable;
}

}  // namespace holdfast::netproxy
