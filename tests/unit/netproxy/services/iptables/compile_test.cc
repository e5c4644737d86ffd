// SPDX-License-Identifier: Apache-2.0
// Restore text of the services in kube-proxy's own documentation of its rules: names (hashes) and
// shapes must be the ones that people know from a node with kube-proxy.
#include "netproxy/services/iptables/compile_row.h"

#include <gtest/gtest.h>

#include "tests/unit/netproxy/services/iptables/rows.h"

namespace holdfast::netproxy::iptables {
namespace {

using enum model::FrontendKind;

std::string Text(const RowRules& rules) {
  std::string out;
  for (size_t i = 0; i < kSharedChains; ++i) {
    if (rules.lines[i].empty()) continue;
    out += StrCat("*", ToString(TableOf(static_cast<SharedChain>(i))), "\n", rules.lines[i]);
  }
  if (!rules.chains.empty()) out += "*nat\n";
  for (const Chain& chain : rules.chains) out += StrCat(":", chain.name, "\n", chain.body);
  return out;
}

std::string Compiled(const model::ServicePortRow& row, const CompileContext& context = Context()) {
  return Text(CompileRow(row, context));
}

TEST(CompileRow, ClusterIp) {
  EXPECT_EQ(Compiled(Row("ns1/svc1:p80", {ClusterIp("172.30.0.41")}, {"10.180.0.1"})),
            R"(*nat
-A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
*nat
:KUBE-SEP-SXIVWICOYRO3J4NJ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80 -s 10.180.0.1 -j KUBE-MARK-MASQ
-A KUBE-SEP-SXIVWICOYRO3J4NJ -m comment --comment ns1/svc1:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.1:80
:KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ
-A KUBE-SVC-XPGD46QRK7WJZT7O -m comment --comment "ns1/svc1:p80 -> 10.180.0.1:80" -j KUBE-SEP-SXIVWICOYRO3J4NJ
)");
}

TEST(CompileRow, ExternalLocalWithoutLocalEndpoints) {
  model::ServicePortRow row =
      Row("ns2/svc2:p80",
          {ClusterIp("172.30.0.42"), External(kExternalIp, "192.168.99.22", 80, true),
           External(kLoadBalancerIp, "1.2.3.4", 80, true), NodePort(3001, true)},
          {"10.180.0.2"});
  row.health_check_port = 30000;
  EXPECT_EQ(Compiled(row),
            R"(*nat
-A KUBE-SERVICES -m comment --comment "ns2/svc2:p80 cluster IP" -m tcp -p tcp -d 172.30.0.42 --dport 80 -j KUBE-SVC-GNZBNJ2PO5MGZ6GT
-A KUBE-SERVICES -m comment --comment "ns2/svc2:p80 external IP" -m tcp -p tcp -d 192.168.99.22 --dport 80 -j KUBE-EXT-GNZBNJ2PO5MGZ6GT
-A KUBE-SERVICES -m comment --comment "ns2/svc2:p80 loadbalancer IP" -m tcp -p tcp -d 1.2.3.4 --dport 80 -j KUBE-EXT-GNZBNJ2PO5MGZ6GT
*nat
-A KUBE-NODEPORTS -m comment --comment ns2/svc2:p80 -m tcp -p tcp --dport 3001 -j KUBE-EXT-GNZBNJ2PO5MGZ6GT
*filter
-A KUBE-EXTERNAL-SERVICES -m comment --comment "ns2/svc2:p80 has no local endpoints" -m tcp -p tcp -d 192.168.99.22 --dport 80 -j DROP
-A KUBE-EXTERNAL-SERVICES -m comment --comment "ns2/svc2:p80 has no local endpoints" -m tcp -p tcp -d 1.2.3.4 --dport 80 -j DROP
-A KUBE-EXTERNAL-SERVICES -m comment --comment "ns2/svc2:p80 has no local endpoints" -m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -m tcp -p tcp --dport 3001 -j DROP
*filter
-A KUBE-NODEPORTS -m comment --comment "ns2/svc2:p80 health check node port" -m tcp -p tcp --dport 30000 -j ACCEPT
*nat
:KUBE-EXT-GNZBNJ2PO5MGZ6GT
-A KUBE-EXT-GNZBNJ2PO5MGZ6GT -m comment --comment "pod traffic for ns2/svc2:p80 external destinations" -s 10.0.0.0/8 -j KUBE-SVC-GNZBNJ2PO5MGZ6GT
-A KUBE-EXT-GNZBNJ2PO5MGZ6GT -m comment --comment "masquerade LOCAL traffic for ns2/svc2:p80 external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-GNZBNJ2PO5MGZ6GT -m comment --comment "route LOCAL traffic for ns2/svc2:p80 external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC-GNZBNJ2PO5MGZ6GT
:KUBE-SEP-RS4RBKLTHTF2IUXJ
-A KUBE-SEP-RS4RBKLTHTF2IUXJ -m comment --comment ns2/svc2:p80 -s 10.180.0.2 -j KUBE-MARK-MASQ
-A KUBE-SEP-RS4RBKLTHTF2IUXJ -m comment --comment ns2/svc2:p80 -m tcp -p tcp -j DNAT --to-destination 10.180.0.2:80
:KUBE-SVC-GNZBNJ2PO5MGZ6GT
-A KUBE-SVC-GNZBNJ2PO5MGZ6GT -m comment --comment "ns2/svc2:p80 cluster IP" -m tcp -p tcp -d 172.30.0.42 --dport 80 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ
-A KUBE-SVC-GNZBNJ2PO5MGZ6GT -m comment --comment "ns2/svc2:p80 -> 10.180.0.2:80" -j KUBE-SEP-RS4RBKLTHTF2IUXJ
)");
}

TEST(CompileRow, TwoEndpointsAndAnExternalIp) {
  const std::string text = Compiled(
      Row("ns4/svc4:p80", {ClusterIp("172.30.0.44"), External(kExternalIp, "192.168.99.33", 80)},
          {"10.180.0.4", "10.180.0.5"}, {"10.180.0.5"}));
  EXPECT_NE(text.find(R"(:KUBE-EXT-4SW47YFZTEDKD3PK
-A KUBE-EXT-4SW47YFZTEDKD3PK -m comment --comment "masquerade traffic for ns4/svc4:p80 external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-4SW47YFZTEDKD3PK -j KUBE-SVC-4SW47YFZTEDKD3PK
)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(
-A KUBE-SVC-4SW47YFZTEDKD3PK -m comment --comment "ns4/svc4:p80 -> 10.180.0.4:80" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-UKSFD7AGPMPPLUHC
-A KUBE-SVC-4SW47YFZTEDKD3PK -m comment --comment "ns4/svc4:p80 -> 10.180.0.5:80" -j KUBE-SEP-C6EBXVWJJZMIWKLZ
)"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("filter"), std::string::npos) << "everybody is served";
}

TEST(CompileRow, SourceRangesAndAffinity) {
  model::Frontend balancer = External(kLoadBalancerIp, "5.6.7.8", 80);
  balancer.restricted = true;
  balancer.source_ranges = {Range("203.0.113.0/25")};
  model::ServicePortRow row =
      Row("ns5/svc5:p80", {ClusterIp("172.30.0.45"), balancer, NodePort(3002)}, {"10.180.0.3"});
  row.affinity = std::chrono::seconds(10800);
  EXPECT_EQ(Compiled(row),
            R"(*nat
-A KUBE-SERVICES -m comment --comment "ns5/svc5:p80 cluster IP" -m tcp -p tcp -d 172.30.0.45 --dport 80 -j KUBE-SVC-NUKIZ6OKUXPJNT4C
-A KUBE-SERVICES -m comment --comment "ns5/svc5:p80 loadbalancer IP" -m tcp -p tcp -d 5.6.7.8 --dport 80 -j KUBE-FW-NUKIZ6OKUXPJNT4C
*nat
-A KUBE-NODEPORTS -m comment --comment ns5/svc5:p80 -m tcp -p tcp --dport 3002 -j KUBE-EXT-NUKIZ6OKUXPJNT4C
*filter
-A KUBE-PROXY-FIREWALL -m comment --comment "ns5/svc5:p80 traffic not accepted by KUBE-FW-NUKIZ6OKUXPJNT4C" -m tcp -p tcp -d 5.6.7.8 --dport 80 -j DROP
*nat
:KUBE-EXT-NUKIZ6OKUXPJNT4C
-A KUBE-EXT-NUKIZ6OKUXPJNT4C -m comment --comment "masquerade traffic for ns5/svc5:p80 external destinations" -j KUBE-MARK-MASQ
-A KUBE-EXT-NUKIZ6OKUXPJNT4C -j KUBE-SVC-NUKIZ6OKUXPJNT4C
:KUBE-FW-NUKIZ6OKUXPJNT4C
-A KUBE-FW-NUKIZ6OKUXPJNT4C -m comment --comment "ns5/svc5:p80 loadbalancer IP" -s 203.0.113.0/25 -j KUBE-EXT-NUKIZ6OKUXPJNT4C
-A KUBE-FW-NUKIZ6OKUXPJNT4C -m comment --comment "other traffic to ns5/svc5:p80 will be dropped by KUBE-PROXY-FIREWALL"
:KUBE-SEP-I77PXRDZVX7PMWMN
-A KUBE-SEP-I77PXRDZVX7PMWMN -m comment --comment ns5/svc5:p80 -s 10.180.0.3 -j KUBE-MARK-MASQ
-A KUBE-SEP-I77PXRDZVX7PMWMN -m comment --comment ns5/svc5:p80 -m recent --name KUBE-SEP-I77PXRDZVX7PMWMN --set -m tcp -p tcp -j DNAT --to-destination 10.180.0.3:80
:KUBE-SVC-NUKIZ6OKUXPJNT4C
-A KUBE-SVC-NUKIZ6OKUXPJNT4C -m comment --comment "ns5/svc5:p80 cluster IP" -m tcp -p tcp -d 172.30.0.45 --dport 80 ! -s 10.0.0.0/8 -j KUBE-MARK-MASQ
-A KUBE-SVC-NUKIZ6OKUXPJNT4C -m comment --comment "ns5/svc5:p80 -> 10.180.0.3:80" -m recent --name KUBE-SEP-I77PXRDZVX7PMWMN --rcheck --seconds 10800 --reap -j KUBE-SEP-I77PXRDZVX7PMWMN
-A KUBE-SVC-NUKIZ6OKUXPJNT4C -m comment --comment "ns5/svc5:p80 -> 10.180.0.3:80" -j KUBE-SEP-I77PXRDZVX7PMWMN
)");
}

TEST(CompileRow, NoEndpoints) {
  EXPECT_EQ(Compiled(Row("ns6/svc6:p80", {ClusterIp("172.30.0.46")}, {})),
            R"(*filter
-A KUBE-SERVICES -m comment --comment "ns6/svc6:p80 has no endpoints" -m tcp -p tcp -d 172.30.0.46 --dport 80 -j REJECT
)");
}

TEST(CompileRow, NoEndpointsBehindSourceRanges) {
  model::Frontend balancer = External(kLoadBalancerIp, "5.6.7.8", 80);
  balancer.restricted = true;
  balancer.source_ranges = {Range("203.0.113.0/25")};
  EXPECT_EQ(Compiled(Row("a/b", {balancer}, {})),
            R"(*filter
-A KUBE-SERVICES -m comment --comment "a/b has no endpoints" -m tcp -p tcp -d 5.6.7.8 --dport 80 -j REJECT
*filter
-A KUBE-EXTERNAL-SERVICES -m comment --comment "a/b has no endpoints" -m tcp -p tcp -d 5.6.7.8 --dport 80 -j REJECT
*filter
-A KUBE-PROXY-FIREWALL -m comment --comment "a/b loadbalancer IP" -s 203.0.113.0/25 -m tcp -p tcp -d 5.6.7.8 --dport 80 -j RETURN
-A KUBE-PROXY-FIREWALL -m comment --comment "a/b traffic not accepted by the source ranges" -m tcp -p tcp -d 5.6.7.8 --dport 80 -j DROP
)");
}

TEST(CompileRow, InternalLocalUsesTheLocalChain) {
  model::Frontend vip = ClusterIp("10.96.0.1");
  vip.inside = vip.outside = model::EndpointList::kLocal;
  const std::string text = Compiled(Row("a/b", {vip}, {"10.0.0.1", "10.1.0.1"}, {"10.0.0.1"}));
  EXPECT_NE(text.find("--dport 80 -j KUBE-SVL-"), std::string::npos) << text;
  EXPECT_EQ(text.find("10.1.0.1"), std::string::npos) << text;
  const std::string dropped = Compiled(Row("a/b", {vip}, {"10.1.0.1"}));
  EXPECT_EQ(dropped,
            "*filter\n-A KUBE-SERVICES -m comment --comment \"a/b has no local endpoints\" "
            "-m tcp -p tcp -d 10.96.0.1 --dport 80 -j DROP\n");
}

TEST(CompileRow, SeveralMatchesOfPodsGoThroughAChainOfTheirOwn) {
  CompileContext context = Context();
  auto settings = Settings();
  settings->local.interface = "hf";
  settings->local.is_prefix = true;
  context.settings = settings;
  const std::string text = Compiled(Row("a/b", {ClusterIp("10.96.0.1")}, {"10.0.0.1"}), context);
  EXPECT_NE(text.find("--dport 80 -j KUBE-MARK-MASQ-FOREIGN\n"), std::string::npos) << text;
  const BaseRules base = CompileBase(context);
  EXPECT_EQ(base.chains[Index(Table::kNat)].back().body,
            "-A KUBE-MARK-MASQ-FOREIGN -s 10.0.0.0/8 -j RETURN\n"
            "-A KUBE-MARK-MASQ-FOREIGN -i hf+ -j RETURN\n"
            "-A KUBE-MARK-MASQ-FOREIGN -j KUBE-MARK-MASQ\n");
}

TEST(CompileRow, LargeClustersGoWithoutCommentsOfEndpoints) {
  CompileContext context = Context();
  context.large = true;
  const std::string text = Compiled(Row("a/b", {ClusterIp("10.96.0.1")}, {"10.0.0.1"}), context);
  EXPECT_EQ(text.find("->"), std::string::npos) << text;
  EXPECT_NE(text.find(" -s 10.0.0.1 -j KUBE-MARK-MASQ"), std::string::npos) << text;
  EXPECT_EQ(text.find("--comment a/b "), std::string::npos) << text;
}

TEST(CompileRow, NamesCannotBreakOutOfTheirComment) {
  const std::string text =
      Compiled(Row("a/b\" -j ACCEPT\n-A X", {ClusterIp("10.96.0.1")}, {"10.0.0.1"}));
  EXPECT_EQ(text.find("b\""), std::string::npos) << text;
  EXPECT_EQ(text.find("\n-A X"), std::string::npos) << text;
}

TEST(CompileRow, Ipv6AndSctp) {
  model::ServicePortRow row = Row("a/b", {ClusterIp("fd00:96::1", 99)}, {"fd00::2"});
  row.protocol = model::L4Protocol::kSctp;
  CompileContext context = Context();
  context.v6 = true;
  const std::string text = Compiled(row, context);
  EXPECT_NE(text.find("-m sctp -p sctp -d fd00:96::1 --dport 99 -j KUBE-SVC-"), std::string::npos);
  EXPECT_NE(text.find("-m sctp -p sctp -j DNAT --to-destination [fd00::2]:80\n"),
            std::string::npos);
  // No pod is known by an IPv6 address, so everybody is masqueraded.
  EXPECT_NE(text.find("-d fd00:96::1 --dport 99 -j KUBE-MARK-MASQ\n"), std::string::npos) << text;
}

TEST(CompileBase, NodePortRanges) {
  CompileContext context = Context();
  auto settings = Settings();
  context.settings = settings;
  using Matches = std::vector<std::string>;
  EXPECT_EQ(NodePortMatches(context), (Matches{"-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 "}));
  settings->localhost_node_ports = true;
  EXPECT_EQ(NodePortMatches(context), (Matches{"-m addrtype --dst-type LOCAL "}));
  settings->node_port_ranges = {Range("192.0.2.0/24")};
  EXPECT_EQ(NodePortMatches(context), (Matches{"-d 192.0.2.0/24 -m addrtype --dst-type LOCAL "}));
  EXPECT_FALSE(LocalhostNodePorts(*settings, false));
  settings->localhost_node_ports = false;
  settings->node_port_ranges = {Range("127.0.0.0/8"), Range("124.0.0.0/6")};
  EXPECT_EQ(NodePortMatches(context), (Matches{"-d 124.0.0.0/7 -m addrtype --dst-type LOCAL ",
                                               "-d 126.0.0.0/8 -m addrtype --dst-type LOCAL "}));
  settings->node_port_ranges = {};
  EXPECT_TRUE(NodePortMatches(context).empty());
}

TEST(CompileBase, ConstantChains) {
  CompileContext context = Context();
  auto settings = Settings();
  settings->localhost_node_ports = true;
  context.settings = settings;
  std::string text;
  const BaseRules base = CompileBase(context);
  for (const auto& chains : base.chains) {
    for (const Chain& chain : chains) text += chain.body;
  }
  for (const std::string& tail : base.tails) text += tail;
  EXPECT_EQ(text,
            R"(-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
)");
}

}  // namespace
}  // namespace holdfast::netproxy::iptables
