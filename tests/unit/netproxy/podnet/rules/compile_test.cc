// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/rules/compile.h"

#include <gtest/gtest.h>

namespace holdfast::netproxy::nft {
namespace {

IpAddress Ip(const std::string& text) { return IpAddress::Parse(text).value(); }

model::ProxyTable Example() {
  model::ProxyTable t;
  t.pod_cidrs = {Cidr::Parse("10.88.0.0/16").value()};
  t.pod_interface_prefix = "hf";
  t.host_ports = {{Ip("0.0.0.0"), model::L4Protocol::kTcp, 8080, {Ip("10.88.0.2"), 80}},
                  {Ip("192.0.2.2"), model::L4Protocol::kUdp, 53, {Ip("10.88.0.3"), 5353}}};
  return t;
}

TEST(CompileTest, WholeTableReadsAsAnNftFile) {
  EXPECT_EQ(Compile(Example(), nullptr, "t").ToString(),
            R"(add table ip t
delete table ip t
add table ip t
add map ip t hostip_ports { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
add element ip t hostip_ports { 192.0.2.2 . udp . 53 : 10.88.0.3 . 5353 }
add map ip t host_ports { type inet_proto . inet_service : ipv4_addr . inet_service; }
add element ip t host_ports { tcp . 8080 : 10.88.0.2 . 80 }
add set ip t hairpin { type ipv4_addr . ipv4_addr; }
add element ip t hairpin { 10.88.0.2 . 10.88.0.2, 10.88.0.3 . 10.88.0.3 }
add chain ip t spoofed { type filter hook prerouting priority -300; policy accept; }
add chain ip t loopback { type filter hook input priority 0; policy accept; }
add chain ip t hostports
add chain ip t prerouting { type nat hook prerouting priority -100; policy accept; }
add chain ip t output { type nat hook output priority -100; policy accept; }
add chain ip t outbound
add chain ip t postrouting { type nat hook postrouting priority 100; policy accept; }
add rule ip t spoofed iifname "hf*" fib saddr . iif oif 0 drop comment "a pod sends from its own address only"
add rule ip t spoofed iifname "hf*" ip daddr 127.0.0.0/8 drop comment "a pod does not send to the node's loopback"
add rule ip t loopback iifname != "lo" ip daddr 127.0.0.0/8 ip saddr != 127.0.0.0/8 ct state & (established | related) == 0 ct status & dnat == 0 drop comment "loopback addresses are not for the network"
add rule ip t hostports dnat ip to ip daddr . meta l4proto . th dport map @hostip_ports comment "host port of one address"
add rule ip t hostports dnat ip to meta l4proto . th dport map @host_ports comment "host port of every address"
add rule ip t prerouting ip daddr != 127.0.0.0/8 fib daddr type local jump hostports comment "to an address of this node, except loopback"
add rule ip t output ip daddr != 127.0.0.0/8 fib daddr type local jump hostports comment "from this node to an address of it, except loopback"
add rule ip t output ip daddr 127.0.0.0/8 dnat ip to ip daddr . meta l4proto . th dport map @hostip_ports comment "host port of a loopback address"
add rule ip t outbound ip daddr 10.88.0.0/16 return comment "to pods of this node"
add rule ip t outbound ip daddr 224.0.0.0/4 return comment "multicast"
add rule ip t outbound masquerade fully-random comment "pods to the outside: with the address of the node"
add rule ip t postrouting ct status & dnat != 0 ip saddr . ip daddr @hairpin masquerade fully-random comment "a pod that meets itself must not see its own address"
add rule ip t postrouting oifname "hf*" ip saddr 127.0.0.0/8 ct status & dnat != 0 masquerade fully-random comment "from the node's loopback: a pod could not answer"
add rule ip t postrouting ip saddr 10.88.0.0/16 jump outbound comment "from pods"
)");
}

TEST(CompileTest, EqualTablesGiveAnEmptyTransaction) {
  const model::ProxyTable t = Example();
  EXPECT_TRUE(Compile(t, &t, "t").empty());
}

TEST(CompileTest, OnePortMoreOrLessTouchesItsElementsOnly) {
  const model::ProxyTable before = Example();
  model::ProxyTable after = before;
  after.host_ports.erase(after.host_ports.begin());
  EXPECT_EQ(Compile(after, &before, "t").ToString(),
            "delete element ip t host_ports { tcp . 8080 : 10.88.0.2 . 80 }\n"
            "delete element ip t hairpin { 10.88.0.2 . 10.88.0.2 }\n");
  EXPECT_EQ(Compile(before, &after, "t").ToString(),
            "add element ip t host_ports { tcp . 8080 : 10.88.0.2 . 80 }\n"
            "add element ip t hairpin { 10.88.0.2 . 10.88.0.2 }\n");
}

TEST(CompileTest, MovedPortIsDeletedAndAddedInOneTransaction) {
  const model::ProxyTable before = Example();
  model::ProxyTable after = before;
  after.host_ports[0].endpoint = {Ip("10.88.0.3"), 81};
  EXPECT_EQ(Compile(after, &before, "t").ToString(),
            "delete element ip t host_ports { tcp . 8080 : 10.88.0.2 . 80 }\n"
            "add element ip t host_ports { tcp . 8080 : 10.88.0.3 . 81 }\n"
            "delete element ip t hairpin { 10.88.0.2 . 10.88.0.2 }\n");
}

TEST(CompileTest, FormerRangesAndTheClustersAreInOneTable) {
  const model::ProxyTable before = Example();
  model::ProxyTable after = before;
  after.pod_cidrs.push_back(Cidr::Parse("10.89.0.0/24").value());
  after.direct = {Cidr::Parse("10.90.0.0/24").value(), Cidr::Parse("fd00::/64").value()};
  const std::string text = Compile(after, &before, "t").ToString();
  EXPECT_TRUE(text.starts_with("add table ip t\ndelete table ip t\nadd table ip t\n")) << text;
  for (const char* rule :
       {"postrouting ip saddr 10.88.0.0/16 jump outbound",
        "postrouting ip saddr 10.89.0.0/24 jump outbound", "outbound ip daddr 10.88.0.0/16 return",
        "outbound ip daddr 10.89.0.0/24 return", "outbound ip daddr 10.90.0.0/24 return"}) {
    EXPECT_NE(text.find(rule), std::string::npos) << rule << "\n" << text;
  }
  EXPECT_EQ(text.find("fd00"), std::string::npos) << text;
}

TEST(CompileTest, ALostFamilyIsRemoved) {
  const model::ProxyTable before = Example();
  model::ProxyTable after = before;
  after.pod_cidrs = {Cidr::Parse("fd00::/64").value()};
  after.host_ports.clear();
  const std::string text = Compile(after, &before, "t").ToString();
  EXPECT_TRUE(text.starts_with("add table ip6 t\n")) << text;
  EXPECT_TRUE(text.ends_with("add table ip t\ndelete table ip t\n")) << text;
}

TEST(CompileTest, Ipv6UsesItsOwnWords) {
  model::ProxyTable t;
  t.pod_cidrs = {Cidr::Parse("fd00:88::/64").value()};
  t.pod_interface_prefix = "hf";
  t.host_ports = {{Ip("::"), model::L4Protocol::kSctp, 99, {Ip("fd00:88::2"), 98}}};
  const std::string text = Compile(t, nullptr, "t").ToString();
  EXPECT_NE(text.find("add element ip6 t host_ports { sctp . 99 : fd00:88::2 . 98 }"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("ip6 daddr ff00::/8 return"), std::string::npos) << text;
  EXPECT_EQ(text.find("127.0.0"), std::string::npos) << text;
}

}  // namespace
}  // namespace holdfast::netproxy::nft
