// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_allocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/full_disk.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ServiceAllocationsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-services-XXXXXX";
    dir_ = ::mkdtemp(pattern);
    ranges_.cluster_ips = {*Cidr::Parse("10.96.0.0/24"), *Cidr::Parse("fd00:96::/112")};
    Open();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void Open() {
    auto opened = ServiceAllocations::Open(dir_, ranges_, clock_);
    ASSERT_TRUE(opened) << opened.error().message();
    book_ = std::make_unique<ServiceAllocations>(std::move(*opened));
  }
  std::vector<ServiceTrouble> Complete(corev1::Service& service) {
    auto troubles = book_->Complete(&service);
    EXPECT_TRUE(book_->Sync());
    return troubles;
  }
  // What the service is after it was completed without trouble.
  corev1::Service Completed(const std::string& spec, const std::string& name = "web") {
    corev1::Service service = ServiceOf(spec, name);
    EXPECT_THAT(Complete(service), IsEmpty());
    return service;
  }

  void Forget(const std::string& name) {
    book_->Forget({"default", name});
    EXPECT_TRUE(book_->Sync());
  }
  std::string Text() const {
    std::ifstream file(dir_ + "/records");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string dir_;
  ServiceRanges ranges_;
  SystemClock clock_;
  std::unique_ptr<ServiceAllocations> book_;
};

TEST_F(ServiceAllocationsTest, GivesAnAddressOutOfTheFirstRangeAndKeepsIt) {
  const corev1::Service web = Completed("ports: [{port: 80}]");
  const auto ip = IpAddress::Parse(web.spec().clusterip());
  ASSERT_TRUE(ip);
  EXPECT_TRUE(ranges_.cluster_ips[0].Contains(*ip));
  EXPECT_THAT(web.spec().clusterips(), ElementsAre(web.spec().clusterip()));
  EXPECT_THAT(web.spec().ipfamilies(), ElementsAre("IPv4"));
  EXPECT_EQ(web.spec().ipfamilypolicy(), "SingleStack");
  EXPECT_EQ(web.metadata().uid().size(), 32u);
  EXPECT_GT(web.metadata().creationtimestamp().seconds(), 0);
  // Again, edited, and after a restart: the same.
  for (int restart = 0; restart < 2; ++restart) {
    const corev1::Service again = Completed("ports: [{port: 81}]");
    EXPECT_EQ(again.spec().clusterip(), web.spec().clusterip());
    EXPECT_EQ(again.metadata().uid(), web.metadata().uid());
    Open();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1);
  Forget("web");
  EXPECT_FALSE(book_->Knows({"default", "web"}));
  Open();
  EXPECT_FALSE(book_->Knows({"default", "web"}));
}

TEST_F(ServiceAllocationsTest, EveryServiceGetsAnAddressOfItsOwnUntilTheRangeIsFull) {
  std::set<std::string> addresses;
  for (int i = 0; i < 254; ++i) {
    addresses.insert(Completed("ports: [{port: 80}]", "s" + std::to_string(i)).spec().clusterip());
  }
  EXPECT_EQ(addresses.size(), 254u);
  EXPECT_FALSE(addresses.contains("10.96.0.0"));
  EXPECT_FALSE(addresses.contains("10.96.0.255"));
  corev1::Service late = ServiceOf("ports: [{port: 80}]", "late");
  const auto troubles = Complete(late);
  ASSERT_THAT(troubles, SizeIs(1));
  EXPECT_EQ(troubles[0].reason, "ClusterIPNotAllocated");
  EXPECT_EQ(late.spec().clusterip(), "");
  Forget("s7");
  EXPECT_THAT(Complete(late), IsEmpty());
}

TEST_F(ServiceAllocationsTest, DualStackByPolicyOrByFamilies) {
  struct Row {
    const char* spec;
    std::vector<std::string> families;
  };
  const Row rows[] = {
      {"ipFamilyPolicy: PreferDualStack", {"IPv4", "IPv6"}},
      {"ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]", {"IPv6", "IPv4"}},
      {"ipFamilies: [IPv6]", {"IPv6"}},
      {"clusterIP: \"fd00:96::9\"", {"IPv6"}},
      {"clusterIP: None", {"IPv4"}},
  };
  int number = 0;
  for (const Row& row : rows) {
    const corev1::Service service =
        Completed(std::string(row.spec) + ", ports: [{port: 80}]", "s" + std::to_string(number++));
    EXPECT_THAT(service.spec().ipfamilies(), ::testing::ElementsAreArray(row.families)) << row.spec;
    if (service.spec().clusterip() == "None") continue;
    ASSERT_EQ(static_cast<size_t>(service.spec().clusterips_size()), row.families.size());
    for (int i = 0; i < service.spec().clusterips_size(); ++i) {
      EXPECT_EQ(IpAddress::Parse(service.spec().clusterips(i))->v6, row.families[i] == "IPv6");
    }
  }
  ranges_.cluster_ips.resize(1);
  Open();
  corev1::Service both = ServiceOf("ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]", "both");
  EXPECT_THAT(Complete(both), SizeIs(1));
  EXPECT_EQ(both.spec().clusterips_size(), 1);
}

TEST_F(ServiceAllocationsTest, AChosenAddressMustBeFreeAndInRange) {
  EXPECT_EQ(Completed("clusterIP: 10.96.0.5, ports: [{port: 80}]").spec().clusterip(), "10.96.0.5");
  corev1::Service second = ServiceOf("clusterIP: 10.96.0.5, ports: [{port: 80}]", "second");
  EXPECT_THAT(Complete(second),
              ElementsAre(ServiceTrouble{"ClusterIPAlreadyAllocated",
                                         "cluster IP 10.96.0.5 belongs to service default/web"}));
  EXPECT_EQ(second.spec().clusterip(), "");
  corev1::Service outside = ServiceOf("clusterIP: 10.97.0.5, ports: [{port: 80}]", "outside");
  const auto troubles = Complete(outside);
  ASSERT_THAT(troubles, SizeIs(1));
  EXPECT_EQ(troubles[0].reason, "ClusterIPOutOfRange");
  // The record of the first one counts after a restart as well.
  Open();
  second = ServiceOf("clusterIP: 10.96.0.5, ports: [{port: 80}]", "second");
  EXPECT_THAT(Complete(second), SizeIs(1));
  // When the owner goes, the second one gets it.
  Forget("web");
  second = ServiceOf("clusterIP: 10.96.0.5, ports: [{port: 80}]", "second");
  EXPECT_THAT(Complete(second), IsEmpty());
  EXPECT_EQ(second.spec().clusterip(), "10.96.0.5");
}

TEST_F(ServiceAllocationsTest, NodePortsAreGivenKeptAndChecked) {
  const corev1::Service web =
      Completed("type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]");
  const int32_t a = web.spec().ports(0).nodeport();
  const int32_t b = web.spec().ports(1).nodeport();
  for (const int32_t port : {a, b}) {
    EXPECT_GE(port, 30000);
    EXPECT_LE(port, 32767);
  }
  EXPECT_NE(a, b);
  Open();
  EXPECT_EQ(Completed("type: NodePort, ports: [{name: b, port: 81}, {name: a, port: 80}]")
                .spec()
                .ports(1)
                .nodeport(),
            a);
  corev1::Service thief = ServiceOf(
      "type: NodePort, ports: [{port: 80, nodePort: " + std::to_string(a) + "}]", "thief");
  const auto troubles = Complete(thief);
  ASSERT_THAT(troubles, SizeIs(1));
  EXPECT_EQ(troubles[0].reason, "PortAlreadyAllocated");
  EXPECT_EQ(thief.spec().ports(0).nodeport(), 0);
  EXPECT_NE(thief.spec().clusterip(), "") << "the rest of it works";
  // Another protocol is another port; out of the range is refused.
  EXPECT_EQ(Completed("type: NodePort, ports: [{port: 53, protocol: UDP, nodePort: " +
                          std::to_string(a) + "}]",
                      "udp")
                .spec()
                .ports(0)
                .nodeport(),
            a);
  corev1::Service low = ServiceOf("type: NodePort, ports: [{port: 80, nodePort: 80}]", "low");
  EXPECT_EQ(Complete(low).at(0).reason, "PortOutOfRange");
  // As a ClusterIP service it gives its node ports back.
  EXPECT_EQ(Completed("ports: [{name: a, port: 80}]").spec().ports(0).nodeport(), 0);
  thief = ServiceOf("type: NodePort, ports: [{port: 80, nodePort: " + std::to_string(a) + "}]",
                    "thief");
  EXPECT_THAT(Complete(thief), IsEmpty());
}

TEST_F(ServiceAllocationsTest, LoadBalancersGetTheirPorts) {
  const corev1::Service local =
      Completed("type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]");
  EXPECT_GE(local.spec().healthchecknodeport(), 30000);
  EXPECT_NE(local.spec().healthchecknodeport(), local.spec().ports(0).nodeport());
  EXPECT_EQ(Completed("type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]")
                .spec()
                .healthchecknodeport(),
            local.spec().healthchecknodeport());
  EXPECT_EQ(Completed("type: LoadBalancer, allocateLoadBalancerNodePorts: false, "
                      "ports: [{port: 80}]",
                      "none")
                .spec()
                .ports(0)
                .nodeport(),
            0);
}

TEST_F(ServiceAllocationsTest, AFullNodePortRangeIsSaid) {
  ranges_.first_node_port = 30000;
  ranges_.last_node_port = 30001;
  Open();
  (void)Completed("type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]");
  corev1::Service late = ServiceOf("type: NodePort, ports: [{port: 80}]", "late");
  EXPECT_EQ(Complete(late).at(0).reason, "PortRangeFull");
}

TEST_F(ServiceAllocationsTest, NothingIsRecordedBeforeASyncAndManyWithOne) {
  std::vector<corev1::Service> services;
  for (int i = 0; i < 100; ++i) {
    services.push_back(ServiceOf("ports: [{port: 80}]", "s" + std::to_string(i)));
    EXPECT_THAT(book_->Complete(&services.back()), IsEmpty());
    EXPECT_FALSE(book_->IsRecorded({"default", "s" + std::to_string(i)}));
  }
  EXPECT_EQ(Text(), "");
  ASSERT_TRUE(book_->Sync());
  EXPECT_TRUE(book_->IsRecorded({"default", "s7"}));
  Open();
  for (corev1::Service& service : services) {
    corev1::Service again = ServiceOf("ports: [{port: 80}]", service.metadata().name());
    (void)book_->Complete(&again);
    EXPECT_EQ(again.spec().clusterip(), service.spec().clusterip());
    EXPECT_TRUE(book_->IsRecorded({"default", service.metadata().name()})) << "nothing is new";
  }
}

TEST_F(ServiceAllocationsTest, TheFileHoldsWhatCountsAndLittleElse) {
  const std::string kept = Completed("ports: [{port: 80}]", "kept").spec().clusterip();
  for (int i = 0; i < 3000; ++i) {
    (void)Completed("ports: [{port: 80}]");
    Forget("web");
  }
  EXPECT_LT(std::ranges::count(Text(), '\n'), 1100);
  Open();
  EXPECT_THAT(book_->TakeWarnings(), IsEmpty());
  EXPECT_THAT(book_->Names(), ElementsAre(model::ServiceName{"default", "kept"}));
  EXPECT_EQ(Completed("ports: [{port: 80}]", "kept").spec().clusterip(), kept);
}

// A write that was cut short anywhere: all before it counts, and what comes later is not harmed.
TEST_F(ServiceAllocationsTest, ALineThatWasCutShortIsNotThere) {
  const std::string web = Completed("ports: [{port: 80}]").spec().clusterip();
  const size_t whole = Text().size();
  (void)Completed("ports: [{port: 80}]", "late");
  const std::string text = Text();
  for (size_t length = whole; length < text.size(); length += 7) {
    std::ofstream(dir_ + "/records", std::ios::trunc) << text.substr(0, length);
    Open();
    EXPECT_THAT(book_->TakeWarnings(), IsEmpty());
    EXPECT_FALSE(book_->Knows({"default", "late"})) << length;
    const std::string next = Completed("ports: [{port: 80}]", "next").spec().clusterip();
    Open();
    EXPECT_EQ(Completed("ports: [{port: 80}]", "next").spec().clusterip(), next) << length;
    EXPECT_EQ(Completed("ports: [{port: 80}]").spec().clusterip(), web) << length;
  }
}

TEST_F(ServiceAllocationsTest, ADamagedLineIsNamedAndTheOthersCount) {
  (void)Completed("ports: [{port: 80}]");
  std::ofstream(dir_ + "/records", std::ios::app) << "{\n{\"version\": 99}\n";
  (void)Completed("ports: [{port: 80}]", "other");
  Open();
  EXPECT_THAT(book_->TakeWarnings(),
              ElementsAre(::testing::StartsWith("service record in line 2: "),
                          ::testing::StartsWith("service record in line 3: ")));
  EXPECT_TRUE(book_->Knows({"default", "web"}));
  EXPECT_TRUE(book_->Knows({"default", "other"}));
}

TEST_F(ServiceAllocationsTest, FilesOfFormerVersionsAreTakenOver) {
  const std::string record =
      R"({"version":1,"created":7,"clusterIPs":["10.96.0.77"],"nodePorts":{},"healthCheckNodePort":0})";
  std::ofstream(dir_ + "/default_web.json") << record;
  std::ofstream(dir_ + "/default_bad.json") << "{";
  Open();
  EXPECT_THAT(book_->TakeWarnings(),
              ElementsAre(::testing::StartsWith("service record default_bad.json: ")));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/default_web.json"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/default_bad.json")) << "left alone";
  Open();
  const corev1::Service web = Completed("ports: [{port: 80}]");
  EXPECT_EQ(web.spec().clusterip(), "10.96.0.77");
  EXPECT_EQ(web.metadata().creationtimestamp().seconds(), 7);
  EXPECT_FALSE(book_->Knows({"default", "bad"}));
}

TEST_F(ServiceAllocationsTest, WhatCannotBeRecordedWaitsForTheNextTry) {
  std::filesystem::remove_all(dir_);
  corev1::Service service = ServiceOf("ports: [{port: 80}]");
  (void)book_->Complete(&service);
  EXPECT_FALSE(book_->Sync());
  EXPECT_FALSE(book_->IsRecorded({"default", "web"}));
}

TEST_F(ServiceAllocationsTest, AFullDiskSpoilsNothing) {
  const std::string web = Completed("ports: [{port: 80}]").spec().clusterip();
  corev1::Service late = ServiceOf("ports: [{port: 80}]", "late");
  (void)book_->Complete(&late);
  {
    const test_support::FullDisk disk(Text().size() + 10);
    EXPECT_FALSE(book_->Sync());
    EXPECT_FALSE(book_->Sync());
    EXPECT_FALSE(book_->IsRecorded({"default", "late"}));
  }
  ASSERT_TRUE(book_->Sync());
  Open();
  EXPECT_THAT(book_->TakeWarnings(), IsEmpty());
  EXPECT_EQ(Completed("ports: [{port: 80}]").spec().clusterip(), web);
  EXPECT_EQ(Completed("ports: [{port: 80}]", "late").spec().clusterip(), late.spec().clusterip());
}

}  // namespace
}  // namespace holdfast::agent
