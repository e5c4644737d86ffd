// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/explain_service.h"

#include <gtest/gtest.h>

#include "tests/support/ip.h"

namespace holdfast::agent::api {
namespace {

using Answer = v1::ExplainServiceResponse::Answer;

using test_support::Ip;

// A load balancer with policy Local, source ranges, one endpoint on another node.
ExplainedService Explained() {
  model::Service service;
  service.name = {"default", "web"};
  service.type = model::ServiceType::kLoadBalancer;
  service.cluster_ips = {Ip("10.96.0.1")};
  service.load_balancer_ips = {{Ip("192.0.2.7"), false}};
  service.has_source_ranges = true;
  service.source_ranges = {*Cidr::Parse("10.0.1.0/24")};
  service.external_local = true;
  service.ports = {{"http", model::L4Protocol::kTcp, 80, 0}};
  model::EndpointSlice slice;
  slice.service = service.name;
  slice.name = "web-1";
  slice.ports = {{"http", model::L4Protocol::kTcp, 8080}};
  slice.endpoints = {{Ip("172.16.0.1"), model::kEndpointReady | model::kEndpointServing, 0}};
  netproxy::ServiceTracker tracker;
  tracker.SetService(service);
  tracker.SetSlice(slice);
  (void)tracker.Commit();
  ExplainedService explained;
  explained.table = *tracker.Explain(service.name);
  explained.troubles = {"node port 80 is not within 30000-32767"};
  explained.local.cidrs = {*Cidr::Parse("172.16.0.0/16")};
  explained.node_addresses = {Ip("10.0.0.1")};
  return explained;
}

v1::ExplainServiceResponse From(const std::string& address) {
  v1::ExplainServiceResponse out;
  FillExplanation(Explained(), Ip(address), out);
  return out;
}

TEST(FillExplanationTest, AnswersForEachKindOfSource) {
  v1::ExplainServiceResponse out;
  FillExplanation(Explained(), std::nullopt, out);
  ASSERT_EQ(out.ports_size(), 1);
  EXPECT_EQ(out.problems(0), "node port 80 is not within 30000-32767");
  const auto& port = out.ports(0);
  EXPECT_EQ(port.name(), "http");
  ASSERT_EQ(port.frontends_size(), 2);
  EXPECT_EQ(port.frontends(0).kind(), "ClusterIP");
  ASSERT_EQ(port.frontends(0).answers_size(), 3);
  for (const Answer& answer : port.frontends(0).answers()) {
    EXPECT_EQ(answer.outcome(), Answer::SERVE);
    ASSERT_EQ(answer.endpoints_size(), 1);
    EXPECT_EQ(answer.endpoints(0), "172.16.0.1:8080");
  }
  const auto& balancer = port.frontends(1);
  EXPECT_EQ(balancer.kind(), "LoadBalancer");
  EXPECT_EQ(balancer.answers(0).outcome(), Answer::SERVE) << "from a pod: any endpoint";
  EXPECT_EQ(balancer.answers(2).outcome(), Answer::DROP) << "from outside: none is here";
  ASSERT_EQ(port.endpoints_size(), 1);
  EXPECT_TRUE(port.endpoints(0).used());
  EXPECT_FALSE(port.endpoints(0).used_local());
  EXPECT_EQ(port.endpoints(0).local_verdict(), "on another node");
}

TEST(FillExplanationTest, SaysWhoAnswersForAnAddressOnTheSegments) {
  ExplainedService explained = Explained();
  const std::string line = "eth0: held by this node, priority 100";
  explained.announced[explained.table.ports[0].row.frontends[1].address] = {line};
  v1::ExplainServiceResponse out;
  FillExplanation(explained, std::nullopt, out);
  EXPECT_EQ(out.ports(0).frontends(0).announced_size(), 0);
  ASSERT_EQ(out.ports(0).frontends(1).announced_size(), 1);
  EXPECT_EQ(out.ports(0).frontends(1).announced(0), line);
}

TEST(FillExplanationTest, ASourceAddressSaysWhoItIsAndWhetherItMay) {
  const auto pod = From("172.16.0.9").ports(0).frontends(1).answers(0);
  EXPECT_EQ(pod.from(), "pod");
  EXPECT_EQ(pod.outcome(), Answer::FILTER) << "pods are bound by the source ranges too";
  EXPECT_EQ(From("10.0.0.1").ports(0).frontends(0).answers(0).from(), "node");
  const auto client = From("10.0.1.5").ports(0).frontends(1).answers(0);
  EXPECT_EQ(client.from(), "outside");
  EXPECT_EQ(client.outcome(), Answer::DROP);
  EXPECT_EQ(From("2001:db8::1").ports_size(), 0) << "nothing of this service has that family";
}

}  // namespace
}  // namespace holdfast::agent::api
