// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/netproxy/table/service_builders.h"

namespace holdfast::netproxy {
namespace {

using model::ServiceChange;
using model::ServicePortRowPtr;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Changed(const ServiceChange& change) {
  std::vector<std::string> names;
  for (const auto& row : change.rows) names.push_back(row->key.name);
  return names;
}

std::vector<std::string> Removed(const ServiceChange& change) {
  std::vector<std::string> names;
  for (const auto& key : change.removed) names.push_back(key.name);
  return names;
}

TEST(ServiceTrackerTest, TheFirstChangeIsCompleteAndLaterOnesHoldWhatChanged) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(ClusterIpService("a", "10.96.0.1"));
  tracker.SetService(ClusterIpService("b", "10.96.0.2"));
  tracker.SetSlice(Slice("a-1", {At("172.16.0.1")}, "a"));
  const ServiceUpdate first = tracker.Commit();
  EXPECT_TRUE(first.change.complete);
  EXPECT_EQ(first.change.version, 1u);
  EXPECT_THAT(Changed(first.change), ElementsAre("default/a", "default/b"));

  tracker.SetSlice(Slice("a-1", {At("172.16.0.1"), At("172.16.0.2")}, "a"));
  const ServiceUpdate second = tracker.Commit();
  EXPECT_FALSE(second.change.complete);
  EXPECT_THAT(Changed(second.change), ElementsAre("default/a"));
  EXPECT_EQ(Text(second.change.rows[0]->cluster), "172.16.0.1:8080 172.16.0.2:8080");
  EXPECT_EQ(second.change.settings, first.change.settings);

  tracker.RemoveService({"default", "b"});
  const ServiceUpdate third = tracker.Commit();
  EXPECT_THAT(Removed(third.change), ElementsAre("default/b"));
  EXPECT_THAT(third.change.rows, IsEmpty());
}

TEST(ServiceTrackerTest, WhatChangesNothingIsNoChange) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(ClusterIpService());
  tracker.SetSlice(Slice("a", {At("172.16.0.1")}));
  (void)tracker.Commit();
  tracker.SetService(ClusterIpService());
  tracker.SetSlice(Slice("a", {At("172.16.0.1")}));
  EXPECT_FALSE(tracker.HasChanges());
  // A new slice with an endpoint that cannot be used touches the service, but not its row.
  tracker.SetSlice(Slice("b", {At("172.16.0.2", 0)}));
  EXPECT_TRUE(tracker.HasChanges());
  const ServiceUpdate update = tracker.Commit();
  EXPECT_THAT(update.change.rows, IsEmpty());
  EXPECT_THAT(update.change.removed, IsEmpty());
}

TEST(ServiceTrackerTest, SlicesMayComeFirstAndMoveToAnotherService) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetSlice(Slice("x", {At("172.16.0.1")}, "a"));
  EXPECT_THAT(tracker.Commit().change.rows, IsEmpty());
  tracker.SetService(ClusterIpService("a", "10.96.0.1"));
  tracker.SetService(ClusterIpService("b", "10.96.0.2"));
  EXPECT_EQ(Text(tracker.Commit().change.rows[0]->cluster), "172.16.0.1:8080");
  tracker.SetSlice(Slice("x", {At("172.16.0.1")}, "b"));
  const ServiceUpdate update = tracker.Commit();
  ASSERT_THAT(Changed(update.change), ElementsAre("default/a", "default/b"));
  EXPECT_EQ(Text(update.change.rows[0]->cluster), "");
  EXPECT_EQ(Text(update.change.rows[1]->cluster), "172.16.0.1:8080");
  tracker.RemoveSlice("default", "x");
  EXPECT_THAT(Changed(tracker.Commit().change), ElementsAre("default/b"));
}

model::Service Created(model::Service service, int64_t when) {
  service.created = when;
  return service;
}

TEST(ServiceTrackerTest, OfTwoServicesTheOlderKeepsTheAddressAndTheOtherWaits) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(Created(ClusterIpService("young"), 20));
  tracker.SetService(Created(ClusterIpService("old"), 10));
  const ServiceUpdate first = tracker.Commit();
  EXPECT_THAT(Changed(first.change), ElementsAre("default/old"));
  ASSERT_EQ(first.problems.size(), 1u);
  EXPECT_EQ(first.problems[0].name.name, "young");
  EXPECT_THAT(first.problems[0].messages,
              ElementsAre("tcp 10.96.0.1:80 belongs to service port default/old"));

  tracker.RemoveService({"default", "old"});
  const ServiceUpdate second = tracker.Commit();
  EXPECT_THAT(Removed(second.change), ElementsAre("default/old"));
  EXPECT_THAT(Changed(second.change), ElementsAre("default/young"));
  ASSERT_EQ(second.problems.size(), 1u);
  EXPECT_THAT(second.problems[0].messages, IsEmpty());
}

TEST(ServiceTrackerTest, AnOlderServiceThatComesLateGetsItsAddressBack) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(Created(ClusterIpService("young"), 20));
  (void)tracker.Commit();
  tracker.SetService(Created(ClusterIpService("old"), 10));
  const ServiceUpdate update = tracker.Commit();
  EXPECT_THAT(Changed(update.change), ElementsAre("default/old"));
  EXPECT_THAT(Removed(update.change), ElementsAre("default/young"));
}

TEST(ServiceTrackerTest, OnlyTheFrontendInQuestionIsLeftOut) {
  ServiceTracker tracker(NodeOptions());
  model::Service a = ClusterIpService("a", "10.96.0.1");
  model::Service b = ClusterIpService("b", "10.96.0.2");
  for (model::Service* s : {&a, &b}) {
    s->type = model::ServiceType::kNodePort;
    s->ports[0].node_port = 30080;
  }
  tracker.SetService(a);
  tracker.SetService(b);
  const ServiceUpdate update = tracker.Commit();
  ASSERT_THAT(Changed(update.change), ElementsAre("default/a", "default/b"));
  EXPECT_EQ(update.change.rows[0]->frontends.size(), 2u);
  EXPECT_EQ(update.change.rows[1]->frontends.size(), 1u);
  EXPECT_THAT(update.problems[0].messages,
              ElementsAre("tcp node port 30080 (IPv4) belongs to service port default/a"));
  // The same port of another protocol is another port.
  b.ports[0].protocol = model::L4Protocol::kUdp;
  tracker.SetService(b);
  EXPECT_EQ(tracker.Commit().change.rows[0]->frontends.size(), 2u);
}

TEST(ServiceTrackerTest, NobodyTakesAClusterIpByAnExternalIp) {
  TableOptions options = NodeOptions();
  options.external_ip_ranges = {Range("0.0.0.0/0")};
  ServiceTracker tracker(options);
  model::Service thief = Created(ClusterIpService("thief", "10.96.0.9"), 1);
  thief.external_ips = {Ip("10.96.0.1")};
  tracker.SetService(thief);
  tracker.SetService(Created(ClusterIpService("victim", "10.96.0.1"), 2));
  const ServiceUpdate update = tracker.Commit();
  ASSERT_THAT(Changed(update.change), ElementsAre("default/thief", "default/victim"));
  EXPECT_EQ(update.change.rows[0]->frontends.size(), 1u);
  EXPECT_EQ(update.problems[0].name.name, "thief");
}

TEST(ServiceTrackerTest, CountsReadyEndpointsHereForHealthChecks) {
  ServiceTracker tracker(NodeOptions());
  model::Service service = LoadBalancerService();
  service.external_local = true;
  service.health_check_port = 31000;
  service.ports.push_back({"second", model::L4Protocol::kTcp, 81, 0});
  tracker.SetService(service);
  model::EndpointSlice slice =
      Slice("a", {At("172.16.0.1", kReadyHere), At("172.16.0.2", kDrainingHere), At("172.16.0.3")});
  slice.ports.push_back({"second", model::L4Protocol::kTcp, 9090});
  tracker.SetSlice(slice);
  EXPECT_TRUE(tracker.Commit().health_checks_changed);
  const HealthCheck expected{31000, {1, 0}};
  EXPECT_EQ(tracker.health_checks().at({"default", "web"}), expected);
  // One that drains serves, but a load balancer shall send nothing new.
  tracker.SetSlice(Slice("a", {At("172.16.0.2", kDrainingHere)}));
  EXPECT_TRUE(tracker.Commit().health_checks_changed);
  const HealthCheck none{31000, {0, 0}};
  EXPECT_EQ(tracker.health_checks().at({"default", "web"}), none);
  tracker.RemoveService({"default", "web"});
  EXPECT_TRUE(tracker.Commit().health_checks_changed);
  EXPECT_THAT(tracker.health_checks(), IsEmpty());
}

TEST(ServiceTrackerTest, OtherOptionsRebuildEveryRow) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(ClusterIpService("a", "10.96.0.1"));
  tracker.SetService(ClusterIpService("b", "10.96.0.2"));
  (void)tracker.Commit();
  TableOptions options = NodeOptions();
  options.masquerade_all = true;
  tracker.SetOptions(options);
  const ServiceUpdate update = tracker.Commit();
  EXPECT_THAT(Changed(update.change), ElementsAre("default/a", "default/b"));
  EXPECT_EQ(update.change.settings, options.settings);
}

TEST(ServiceTrackerTest, ExplainsWhoGetsPacketsAndWhoNot) {
  ServiceTracker tracker(NodeOptions());
  tracker.SetService(Created(ClusterIpService("first"), 1));
  tracker.SetService(Created(ClusterIpService("second"), 2));
  tracker.SetSlice(Slice("a", {At("172.16.0.1"), At("172.16.0.2", kDraining)}, "second"));
  (void)tracker.Commit();
  EXPECT_FALSE(tracker.Explain({"default", "third"}));
  const auto explained = tracker.Explain({"default", "second"});
  ASSERT_TRUE(explained);
  EXPECT_EQ(explained->skipped, "");
  ASSERT_EQ(explained->ports.size(), 1u);
  EXPECT_THAT(explained->ports[0].row.frontends, IsEmpty());
  ASSERT_EQ(explained->ports[0].lost.size(), 1u);
  EXPECT_EQ(explained->ports[0].lost[0].owner, "default/first");
  ASSERT_EQ(explained->ports[0].endpoints.size(), 2u);
  EXPECT_EQ(Describe(explained->ports[0].endpoints[1].cluster),
            "terminating, and others are ready");
}

// --- Any sequence of changes gives what building everything anew gives. ---

class RandomWorld {
 public:
  explicit RandomWorld(unsigned seed) : random_(seed) {}

  void Step(ServiceTracker& tracker) {
    const std::string name(1, static_cast<char>('a' + Pick(6)));
    const std::string slice = "slice-" + std::to_string(Pick(8));
    switch (Pick(5)) {
      case 0:
      case 1:
        services_[name] = RandomService(name);
        return tracker.SetService(services_[name]);
      case 2:
        services_.erase(name);
        return tracker.RemoveService({"default", name});
      case 3:
        slices_[slice] = RandomSlice(slice, name);
        return tracker.SetSlice(slices_[slice]);
      default:
        slices_.erase(slice);
        return tracker.RemoveSlice("default", slice);
    }
  }

  ServiceTracker Rebuilt(const TableOptions& options) const {
    ServiceTracker tracker(options);
    for (const auto& [name, service] : services_) tracker.SetService(service);
    for (const auto& [name, slice] : slices_) tracker.SetSlice(slice);
    return tracker;
  }

  unsigned Pick(unsigned below) {
    return std::uniform_int_distribution<unsigned>(0, below - 1)(random_);
  }

 private:
  // Few addresses and ports, so that there are many conflicts.
  model::Service RandomService(const std::string& name) {
    model::Service service = ClusterIpService(name, "10.96.0." + std::to_string(Pick(3) + 1));
    if (Pick(2) == 0) service.cluster_ips.push_back(Ip("fd00:96::" + std::to_string(Pick(3) + 1)));
    service.created = Pick(3);
    service.type = static_cast<model::ServiceType>(Pick(4));
    service.headless = Pick(8) == 0;
    service.internal_local = Pick(3) == 0;
    service.external_local = Pick(3) == 0;
    service.health_check_port = static_cast<uint16_t>(Pick(2) * 31000);
    service.ports[0].node_port = static_cast<uint16_t>(30000 + Pick(2));
    if (Pick(2) == 0) service.ports.push_back({"b", model::L4Protocol::kUdp, 80, 30001});
    if (Pick(2) == 0) service.external_ips = {Ip("198.51.100." + std::to_string(Pick(2) + 1))};
    if (Pick(2) == 0) service.load_balancer_ips = {{Ip("198.51.100.1"), Pick(3) == 0}};
    service.has_source_ranges = Pick(3) == 0;
    return service;
  }

  model::EndpointSlice RandomSlice(const std::string& name, const std::string& service) {
    model::EndpointSlice slice = Slice(name, {}, service, Pick(3) == 0);
    if (Pick(3) == 0) slice.ports.push_back({"b", model::L4Protocol::kUdp, 53});
    for (unsigned n = Pick(4); n-- > 0;) {
      const std::string host = std::to_string(Pick(4) + 1);
      slice.endpoints.push_back(
          At(slice.v6 ? "fd00:172::" + host : "172.16.0." + host, static_cast<uint8_t>(Pick(256))));
    }
    return slice;
  }

  std::mt19937 random_;
  std::map<std::string, model::Service> services_;
  std::map<std::string, model::EndpointSlice> slices_;
};

// What a back end has after it followed the changes.
void Follow(const ServiceChange& change, std::map<model::ServicePortKey, ServicePortRowPtr>& rows) {
  if (change.complete) rows.clear();
  for (const auto& key : change.removed) {
    ASSERT_EQ(rows.erase(key), 1u) << key.name << " was removed, but never there";
  }
  for (const ServicePortRowPtr& row : change.rows) {
    const auto old = rows.find(row->key);
    ASSERT_TRUE(old == rows.end() || *old->second != *row) << row->key.name << " did not change";
    rows[row->key] = row;
  }
}

TEST(ServiceTrackerTest, ChangesOneByOneEqualARebuild) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomWorld world(seed);
    ServiceTracker tracker(NodeOptions());
    std::map<model::ServicePortKey, ServicePortRowPtr> followed;
    std::map<model::ServiceName, std::vector<std::string>> problems;
    for (int round = 0; round < 40; ++round) {
      for (unsigned n = world.Pick(4) + 1; n-- > 0;) world.Step(tracker);
      const ServiceUpdate update = tracker.Commit();
      ASSERT_NO_FATAL_FAILURE(Follow(update.change, followed));
      for (const ServiceProblems& p : update.problems) {
        problems.erase(p.name);
        if (!p.messages.empty()) problems[p.name] = p.messages;
      }
      ServiceTracker rebuilt = world.Rebuilt(NodeOptions());
      const ServiceUpdate whole = rebuilt.Commit();
      std::map<model::ServiceName, std::vector<std::string>> whole_problems;
      for (const ServiceProblems& p : whole.problems) whole_problems[p.name] = p.messages;
      ASSERT_EQ(followed.size(), whole.change.rows.size());
      for (const ServicePortRowPtr& row : whole.change.rows) {
        ASSERT_TRUE(followed.contains(row->key)) << row->key.name;
        ASSERT_EQ(*followed.at(row->key), *row) << row->key.name;
      }
      ASSERT_EQ(problems, whole_problems);
      ASSERT_EQ(tracker.health_checks(), rebuilt.health_checks());
      const ServiceChange complete = tracker.Complete();
      ASSERT_EQ(complete.rows.size(), followed.size());
      // No address twice.
      std::set<FrontendKey> taken;
      for (const ServicePortRowPtr& row : complete.rows) {
        for (const model::Frontend& f : row->frontends) {
          ASSERT_TRUE(taken.insert(KeyOf(f, row->protocol)).second);
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::netproxy
