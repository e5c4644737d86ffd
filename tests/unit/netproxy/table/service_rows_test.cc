// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/netproxy/table/service_builders.h"

namespace holdfast::netproxy {
namespace {

using model::EndpointList;
using model::Frontend;
using model::FrontendAnswer;
using model::FrontendKind;
using model::ServicePortRow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint8_t kAll = model::kFromPod | model::kFromNode | model::kFromOutside;
constexpr uint8_t kNoPod = model::kFromNode | model::kFromOutside;

BuiltRows Build(const model::Service& service, const std::vector<model::EndpointSlice>& slices,
                const TableOptions& options = NodeOptions()) {
  std::vector<const model::EndpointSlice*> pointers;
  for (const auto& slice : slices) pointers.push_back(&slice);
  return BuildRows(service, pointers, options);
}

const Frontend* Find(const ServicePortRow& row, FrontendKind kind) {
  for (const Frontend& frontend : row.frontends) {
    if (frontend.kind == kind) return &frontend;
  }
  return nullptr;
}

std::vector<std::string> Names(const BuiltRows& built) {
  std::vector<std::string> names;
  for (const ServicePortRow& row : built.rows) {
    for (const Frontend& frontend : row.frontends) {
      names.push_back(ToString(frontend, row.protocol));
    }
  }
  return names;
}

struct PolicyCase {
  bool internal_local;
  bool external_local;
  FrontendKind kind;
  EndpointList inside;
  EndpointList outside;
  uint8_t masquerade;
};

// Feature map 4.2.4, 4.2.8, 4.2.9: who is served by which list, and whose source is hidden.
const PolicyCase kPolicies[] = {
    {false, false, FrontendKind::kClusterIp, EndpointList::kCluster, EndpointList::kCluster,
     kNoPod},
    {true, false, FrontendKind::kClusterIp, EndpointList::kLocal, EndpointList::kLocal, kNoPod},
    {false, true, FrontendKind::kClusterIp, EndpointList::kCluster, EndpointList::kCluster, kNoPod},
    {false, false, FrontendKind::kNodePort, EndpointList::kCluster, EndpointList::kCluster, kAll},
    {false, false, FrontendKind::kLoadBalancerIp, EndpointList::kCluster, EndpointList::kCluster,
     kAll},
    {false, false, FrontendKind::kExternalIp, EndpointList::kCluster, EndpointList::kCluster, kAll},
    {true, false, FrontendKind::kNodePort, EndpointList::kCluster, EndpointList::kCluster, kAll},
    {false, true, FrontendKind::kNodePort, EndpointList::kCluster, EndpointList::kLocal,
     model::kFromNode},
    {false, true, FrontendKind::kLoadBalancerIp, EndpointList::kCluster, EndpointList::kLocal,
     model::kFromNode},
    {true, true, FrontendKind::kExternalIp, EndpointList::kCluster, EndpointList::kLocal,
     model::kFromNode},
};

TEST(BuildRowsTest, FollowsTheTrafficPolicies) {
  for (const PolicyCase& c : kPolicies) {
    model::Service service = LoadBalancerService();
    service.internal_local = c.internal_local;
    service.external_local = c.external_local;
    const BuiltRows built = Build(service, {Slice("a", {At("172.16.0.1")})});
    ASSERT_EQ(built.rows.size(), 1u);
    const Frontend* frontend = Find(built.rows[0], c.kind);
    ASSERT_NE(frontend, nullptr);
    SCOPED_TRACE(ToString(*frontend, built.rows[0].protocol) + (c.internal_local ? " iL" : "") +
                 (c.external_local ? " eL" : ""));
    EXPECT_EQ(frontend->inside, c.inside);
    EXPECT_EQ(frontend->outside, c.outside);
    EXPECT_EQ(frontend->masquerade, c.masquerade);
  }
}

TEST(BuildRowsTest, RefusesWithoutEndpointsAndDiscardsWithoutLocalOnes) {
  struct Row {
    std::vector<model::SliceEndpoint> endpoints;
    FrontendAnswer cluster;
    FrontendAnswer local;
  };
  const Row rows[] = {
      {{}, FrontendAnswer::kRefuse, FrontendAnswer::kRefuse},
      {{At("172.16.0.1", 0)}, FrontendAnswer::kRefuse, FrontendAnswer::kRefuse},
      {{At("172.16.0.1")}, FrontendAnswer::kServe, FrontendAnswer::kDiscard},
      {{At("172.16.0.1", kReadyHere)}, FrontendAnswer::kServe, FrontendAnswer::kServe},
      {{At("172.16.0.1", kDraining)}, FrontendAnswer::kServe, FrontendAnswer::kDiscard},
  };
  for (const Row& row : rows) {
    const BuiltRows built = Build(ClusterIpService(), {Slice("a", row.endpoints)});
    EXPECT_EQ(AnswerOf(built.rows[0], EndpointList::kCluster), row.cluster);
    EXPECT_EQ(AnswerOf(built.rows[0], EndpointList::kLocal), row.local);
  }
}

TEST(BuildRowsTest, SkipsWhatIsNotOurs) {
  model::Service external = ClusterIpService();
  external.type = model::ServiceType::kExternalName;
  model::Service headless = ClusterIpService();
  headless.headless = true;
  model::Service other = ClusterIpService();
  other.proxy_name = "cilium";
  model::Service unset = ClusterIpService();
  unset.cluster_ips.clear();
  for (const model::Service& service : {external, headless, other, unset}) {
    EXPECT_THAT(Build(service, {Slice("a", {At("172.16.0.1")})}).rows, IsEmpty());
    EXPECT_NE(WhySkipped(service), "");
  }
  EXPECT_EQ(WhySkipped(ClusterIpService()), "");
}

TEST(BuildRowsTest, MakesOneRowPerPortAndFamily) {
  model::Service service = LoadBalancerService();
  service.cluster_ips = {Ip("10.96.0.1"), Ip("fd00:96::1")};
  service.ports = {{"http", model::L4Protocol::kTcp, 80, 30080},
                   {"dns", model::L4Protocol::kUdp, 53, 30053},
                   {"sig", model::L4Protocol::kSctp, 7, 30007}};
  service.load_balancer_ips.push_back({Ip("2001:db8::7"), false});
  model::EndpointSlice four = Slice("a", {At("172.16.0.1")});
  model::EndpointSlice six = Slice("b", {At("fd00:172::1")}, "web", true);
  four.ports = six.ports = {{"http", model::L4Protocol::kTcp, 8080}};
  const BuiltRows built = Build(service, {four, six});
  ASSERT_EQ(built.rows.size(), 6u);
  EXPECT_EQ(built.rows[0].key, (model::ServicePortKey{"default/web:http", false}));
  EXPECT_EQ(Text(built.rows[0].cluster), "172.16.0.1:8080");
  EXPECT_EQ(built.rows[3].key, (model::ServicePortKey{"default/web:http", true}));
  EXPECT_EQ(Text(built.rows[3].cluster), "fd00:172::1:8080");
  EXPECT_EQ(built.rows[4].protocol, model::L4Protocol::kUdp);
  EXPECT_THAT(
      Names(built),
      ElementsAre("tcp 10.96.0.1:80", "tcp 198.51.100.7:80", "tcp 192.0.2.7:80",
                  "tcp node port 30080 (IPv4)", "udp 10.96.0.1:53", "udp 198.51.100.7:53",
                  "udp 192.0.2.7:53", "udp node port 30053 (IPv4)", "sctp 10.96.0.1:7",
                  "sctp 198.51.100.7:7", "sctp 192.0.2.7:7", "sctp node port 30007 (IPv4)",
                  "tcp [fd00:96::1]:80", "tcp [2001:db8::7]:80", "tcp node port 30080 (IPv6)",
                  "udp [fd00:96::1]:53", "udp [2001:db8::7]:53", "udp node port 30053 (IPv6)",
                  "sctp [fd00:96::1]:7", "sctp [2001:db8::7]:7", "sctp node port 30007 (IPv6)"));
}

TEST(BuildRowsTest, DropsTheFamilyThatTheServiceDoesNotHave) {
  model::Service service = LoadBalancerService();
  service.load_balancer_ips.push_back({Ip("2001:db8::7"), false});
  service.external_ips.push_back(Ip("2001:db8::8"));
  for (const std::string& name : Names(Build(service, {}))) {
    EXPECT_THAT(name, ::testing::Not(HasSubstr("["))) << name;
  }
}

TEST(BuildRowsTest, LeavesProxyLoadBalancersToTheBalancer) {
  model::Service service = LoadBalancerService();
  service.load_balancer_ips[0].proxy = true;
  const BuiltRows built = Build(service, {});
  EXPECT_EQ(Find(built.rows[0], FrontendKind::kLoadBalancerIp), nullptr);
}

TEST(BuildRowsTest, IgnoresNodePortsOfAClusterIpService) {
  model::Service service = ClusterIpService();
  service.ports[0].node_port = 30080;
  EXPECT_THAT(Names(Build(service, {})), ElementsAre("tcp 10.96.0.1:80"));
}

TEST(BuildRowsTest, RestrictsLoadBalancerAddressesOnly) {
  model::Service service = LoadBalancerService();
  service.has_source_ranges = true;
  service.source_ranges = {Range("10.0.1.0/24"), Range("2001:db8::/32")};
  const BuiltRows built = Build(service, {});
  for (const Frontend& frontend : built.rows[0].frontends) {
    const bool balancer = frontend.kind == FrontendKind::kLoadBalancerIp;
    EXPECT_EQ(frontend.restricted, balancer);
    if (!balancer) continue;
    EXPECT_THAT(frontend.source_ranges, ElementsAre(Range("10.0.1.0/24")));
  }
}

TEST(BuildRowsTest, RangesOfTheOtherFamilyLetNobodyIn) {
  model::Service service = LoadBalancerService();
  service.has_source_ranges = true;
  service.source_ranges = {Range("2001:db8::/32")};
  const BuiltRows built = Build(service, {});
  const Frontend* frontend = Find(built.rows[0], FrontendKind::kLoadBalancerIp);
  EXPECT_TRUE(frontend->restricted);
  EXPECT_THAT(frontend->source_ranges, IsEmpty());
}

TEST(BuildRowsTest, LetsTheNodeInWhereItsAddressIsInRange) {
  model::Service service = LoadBalancerService();
  service.has_source_ranges = true;
  service.source_ranges = {Range("10.0.0.0/24"), Range("10.0.0.0/24")};
  const BuiltRows built = Build(service, {});
  EXPECT_THAT(Find(built.rows[0], FrontendKind::kLoadBalancerIp)->source_ranges,
              ElementsAre(Range("10.0.0.0/24"), Range("192.0.2.7/32")));
}

TEST(BuildRowsTest, OneAddressAsExternalAndLoadBalancerIpKeepsItsRestriction) {
  model::Service service = LoadBalancerService();
  service.external_ips = {Ip("192.0.2.7")};
  service.has_source_ranges = true;
  TableOptions options = NodeOptions();
  options.external_ip_ranges = {Range("192.0.2.0/24")};
  const BuiltRows built = Build(service, {}, options);
  EXPECT_THAT(Names(built),
              ElementsAre("tcp 10.96.0.1:80", "tcp 192.0.2.7:80", "tcp node port 30080 (IPv4)"));
  EXPECT_TRUE(built.rows[0].frontends[1].restricted);
}

TEST(BuildRowsTest, RefusesAddressesThatNobodyMayTake) {
  model::Service service = LoadBalancerService();
  TableOptions options = NodeOptions();
  options.external_ip_ranges = {Range("0.0.0.0/0")};
  service.external_ips.clear();
  for (const char* ip : {"127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0"}) {
    service.external_ips.push_back(Ip(ip));
  }
  service.load_balancer_ips = {{Ip("127.0.0.2"), false}};
  const BuiltRows built = Build(service, {}, options);
  EXPECT_THAT(Names(built), ElementsAre("tcp 10.96.0.1:80", "tcp node port 30080 (IPv4)"));
  EXPECT_EQ(built.problems.size(), 5u);
  service = LoadBalancerService();
  service.external_ips = {Ip("8.8.8.8")};
  EXPECT_THAT(Build(service, {}).problems,
              ElementsAre("external IP 8.8.8.8: in none of the allowed external IP ranges"));
}

TEST(BuildRowsTest, MasqueradesByTheSettings) {
  TableOptions all = NodeOptions();
  all.masquerade_all = true;
  EXPECT_EQ(Build(ClusterIpService(), {}, all).rows[0].frontends[0].masquerade, kAll);
  // Who does not know what a pod is cannot tell whom to masquerade.
  EXPECT_EQ(Build(ClusterIpService(), {}, {}).rows[0].frontends[0].masquerade, 0);
  model::ServiceSettings by_interface;
  by_interface.local.interface = "veth";
  TableOptions options;
  options.settings = std::make_shared<const model::ServiceSettings>(by_interface);
  EXPECT_EQ(Build(ClusterIpService(), {}, options).rows[0].frontends[0].masquerade, kNoPod);
}

TEST(BuildRowsTest, KeepsAffinityWithinItsLimit) {
  model::Service service = ClusterIpService();
  service.affinity = std::chrono::seconds(10800);
  EXPECT_EQ(Build(service, {}).rows[0].affinity, std::chrono::seconds(10800));
  service.affinity = std::chrono::seconds(1'000'000);
  EXPECT_EQ(Build(service, {}).rows[0].affinity, std::chrono::seconds(86400));
}

TEST(BuildRowsTest, OpensHealthCheckPortsForLocalLoadBalancersOnly) {
  model::Service service = LoadBalancerService();
  service.health_check_port = 31000;
  EXPECT_EQ(Build(service, {}).rows[0].health_check_port, 0);
  service.external_local = true;
  EXPECT_EQ(Build(service, {}).rows[0].health_check_port, 31000);
}

TEST(BuildRowsTest, FlowsOfServingEndpointsMayEnd) {
  const BuiltRows built =
      Build(ClusterIpService(), {Slice("a", {At("172.16.0.1"), At("172.16.0.2", kDraining),
                                             At("172.16.0.3", 0), At("127.0.0.1", kDraining)})});
  EXPECT_EQ(Text(built.rows[0].cluster), "172.16.0.1:8080");
  EXPECT_EQ(Text(built.rows[0].draining), "172.16.0.2:8080");
}

TEST(BuildRowsTest, TakesTheFirstOfTwoPortsWithOneName) {
  model::Service service = ClusterIpService();
  service.ports.push_back({"", model::L4Protocol::kTcp, 81, 0});
  const BuiltRows built = Build(service, {});
  EXPECT_EQ(built.rows.size(), 1u);
  EXPECT_EQ(built.problems.size(), 1u);
}

}  // namespace
}  // namespace holdfast::netproxy
