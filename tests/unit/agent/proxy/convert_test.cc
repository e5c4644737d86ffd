// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/ip.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

using test_support::Ip;
using ::testing::ElementsAre;

TEST(ConvertServiceTest, TakesOverEveryFieldThatRulesDependOn) {
  corev1::Service service = ServiceOf(
      "type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, \"fd00::1\"], "
      "externalIPs: [192.0.2.1], sessionAffinity: ClientIP, internalTrafficPolicy: Local, "
      "externalTrafficPolicy: Local, healthCheckNodePort: 31000, "
      "loadBalancerSourceRanges: [10.0.0.9/8, \"2001:db8::/32\"], ports: "
      "[{name: a, port: 80, nodePort: 30080}, {name: b, port: 53, protocol: UDP}, "
      "{name: c, port: 7, protocol: SCTP}]");
  auto* ingress = service.mutable_status()->mutable_loadbalancer()->add_ingress();
  ingress->set_ip("192.0.2.7");
  ingress = service.mutable_status()->mutable_loadbalancer()->add_ingress();
  ingress->set_ip("192.0.2.8");
  ingress->set_ipmode("Proxy");
  service.mutable_status()->mutable_loadbalancer()->add_ingress()->set_hostname("lb.example");
  service.mutable_metadata()->mutable_creationtimestamp()->set_seconds(17);
  const model::Service row = ToModel(service);
  EXPECT_EQ(row.name, (model::ServiceName{"default", "web"}));
  EXPECT_EQ(row.created, 17);
  EXPECT_EQ(row.type, model::ServiceType::kLoadBalancer);
  EXPECT_THAT(row.cluster_ips, ElementsAre(Ip("10.96.0.1"), Ip("fd00::1")));
  EXPECT_THAT(row.external_ips, ElementsAre(Ip("192.0.2.1")));
  EXPECT_THAT(row.load_balancer_ips, ElementsAre(model::LoadBalancerIp{Ip("192.0.2.7"), false},
                                                 model::LoadBalancerIp{Ip("192.0.2.8"), true}));
  EXPECT_TRUE(row.has_source_ranges);
  EXPECT_THAT(row.source_ranges,
              ElementsAre(*Cidr::Parse("10.0.0.0/8"), *Cidr::Parse("2001:db8::/32")));
  EXPECT_THAT(row.ports, ElementsAre(model::ServicePort{"a", model::L4Protocol::kTcp, 80, 30080},
                                     model::ServicePort{"b", model::L4Protocol::kUdp, 53, 0},
                                     model::ServicePort{"c", model::L4Protocol::kSctp, 7, 0}));
  EXPECT_EQ(row.affinity, std::chrono::seconds(10800));
  EXPECT_TRUE(row.internal_local);
  EXPECT_TRUE(row.external_local);
  EXPECT_EQ(row.health_check_port, 31000);
}

TEST(ConvertServiceTest, KnowsWhatIsNotOurs) {
  EXPECT_TRUE(ToModel(ServiceOf("clusterIP: None")).headless);
  EXPECT_TRUE(ToModel(ServiceOf("ports: [{port: 80}]", "web",
                                "labels: {service.kubernetes.io/headless: \"\"}"))
                  .headless);
  EXPECT_EQ(ToModel(ServiceOf("ports: [{port: 80}]", "web",
                              "labels: {service.kubernetes.io/service-proxy-name: other}"))
                .proxy_name,
            "other");
  EXPECT_EQ(ToModel(ServiceOf("type: ExternalName, externalName: a.example")).type,
            model::ServiceType::kExternalName);
}

TEST(ConvertSliceTest, ConditionsThatAreNotSetMeanReady) {
  struct Row {
    const char* conditions;
    uint8_t flags;
  };
  const Row rows[] = {
      {"{}", model::kEndpointReady | model::kEndpointServing},
      {"{ready: true}", model::kEndpointReady | model::kEndpointServing},
      {"{ready: false}", 0},
      {"{ready: false, serving: true, terminating: true}",
       model::kEndpointServing | model::kEndpointTerminating},
      {"{ready: true, serving: false}", model::kEndpointReady},
  };
  NodeNumbers numbers;
  for (const Row& row : rows) {
    const auto slice = ToModel(SliceOf(std::string("addressType: IPv4\nendpoints: [{addresses: "
                                                   "[172.16.0.1], conditions: ") +
                                       row.conditions + "}]\n"),
                               {"n1", "z1"}, numbers);
    ASSERT_TRUE(slice && slice->endpoints.size() == 1);
    EXPECT_EQ(slice->endpoints[0].flags, row.flags) << row.conditions;
  }
}

TEST(ConvertSliceTest, ComparesNodesAndHintsWithThisNode) {
  NodeNumbers numbers;
  const auto slice = ToModel(
      SliceOf("addressType: IPv4\nports: [{name: http, port: 8080}, {name: any}]\nendpoints:\n"
              "- {addresses: [172.16.0.1, 172.16.0.2], nodeName: n1, hints: {forNodes: [{name: "
              "n1}], forZones: [{name: z2}]}}\n"
              "- {addresses: [172.16.0.3], nodeName: n2, hints: {forNodes: [{name: n2}], forZones: "
              "[{name: z2}, {name: z1}]}}\n"),
      {"n1", "z1"}, numbers);
  ASSERT_TRUE(slice && slice->endpoints.size() == 2);
  EXPECT_EQ(slice->service, (model::ServiceName{"default", "web"}));
  EXPECT_THAT(slice->ports, ElementsAre(model::SlicePort{"http", model::L4Protocol::kTcp, 8080}));
  constexpr uint8_t kReady = model::kEndpointReady | model::kEndpointServing;
  EXPECT_EQ(slice->endpoints[0].flags, kReady | model::kEndpointHere | model::kEndpointNodeHints |
                                           model::kEndpointNodeHinted | model::kEndpointZoneHints);
  EXPECT_EQ(slice->endpoints[1].flags, kReady | model::kEndpointNodeHints |
                                           model::kEndpointZoneHints | model::kEndpointZoneHinted);
  EXPECT_EQ(numbers.NameOf(slice->endpoints[1].origin), "n2");
}

TEST(ConvertSliceTest, LeavesOutWhatBelongsToNoService) {
  NodeNumbers numbers;
  EXPECT_FALSE(ToModel(SliceOf("addressType: FQDN\nendpoints: [{addresses: [a.example]}]\n"),
                       {"n1", ""}, numbers));
  discoveryv1::EndpointSlice slice = SliceOf("addressType: IPv4\nendpoints: []\n");
  slice.mutable_metadata()->clear_labels();
  EXPECT_FALSE(ToModel(slice, {"n1", ""}, numbers));
}

}  // namespace
}  // namespace holdfast::agent
