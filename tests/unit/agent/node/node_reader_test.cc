// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_reader.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <thread>

namespace holdfast::agent {
namespace {

AgentConfig Config() {
  AgentConfig config;
  config.instance.node_name = "n1";
  config.instance.pod_cidrs = {"10.1.0.0/16", "fd00::/64"};
  config.instance.resolv_conf = "/nonexistent/resolv.conf";
  return config;
}

TEST(NodeCapacityTest, IsWhatTheKernelSays) {
  const NodeAmounts capacity = NodeCapacity();
  EXPECT_EQ(capacity.cpu_milli, ::get_nprocs() * 1000);
  struct sysinfo info{};
  ASSERT_EQ(::sysinfo(&info), 0);
  EXPECT_EQ(capacity.memory_bytes / 1024,
            static_cast<int64_t>(info.totalram) * info.mem_unit / 1024);
  EXPECT_GT(capacity.pids, 100);
}

TEST(NodeTest, ShowsCapacityAndWhatIsLeftOfIt) {
  AgentConfig config = Config();
  config.node.system_reserved = {1500, 1ll << 20, 0};
  const auto node = MakeNode(config, "1.2.3", {}, WallTime{}, WallTime{});
  EXPECT_EQ(node.metadata().name(), "n1");
  EXPECT_EQ(node.spec().podcidr(), "10.1.0.0/16");
  const NodeAmounts capacity = NodeCapacity();
  EXPECT_EQ(node.status().capacity().at("cpu").string(), std::to_string(capacity.cpu_milli / 1000));
  EXPECT_EQ(node.status().allocatable().at("cpu").string(),
            std::to_string(capacity.cpu_milli - 1500) + "m");
  EXPECT_EQ(node.status().allocatable().at("memory").string(),
            std::to_string(capacity.memory_bytes / 1024 - 1024) + "Ki");
  EXPECT_EQ(node.status().allocatable().at("pods").string(), "110");
  EXPECT_TRUE(node.status().capacity().at("ephemeral-storage").string().ends_with("Ki"));
  EXPECT_EQ(node.status().nodeinfo().kubeletversion(), "v1.36.3+holdfast.1.2.3");
  EXPECT_EQ(node.status().nodeinfo().containerruntimeversion(), "holdfast://1.2.3");
  EXPECT_FALSE(node.status().nodeinfo().bootid().empty());
}

TEST(NodeTest, OffersPodsWhatItShows) {
  AgentConfig config = Config();
  config.node.max_pods = 7;
  config.node.labels = {{"disk", "ssd"}, {"kubernetes.io/hostname", "other"}};
  config.node.allowed_unsafe_sysctls = {"kernel.msg*"};
  const auto offer = NodeReader(config, "1.2.3", nullptr).Read(BootTime())->offer;
  EXPECT_EQ(offer->name, "n1");
  EXPECT_EQ(offer->labels.at("kubernetes.io/os"), "linux");
  EXPECT_EQ(offer->labels.at("beta.kubernetes.io/os"), "linux");
  EXPECT_EQ(offer->labels.at("disk"), "ssd");
  EXPECT_EQ(offer->labels.at("kubernetes.io/hostname"), "other") << "as with a kubelet";
  EXPECT_EQ(offer->allowed_unsafe_sysctls, config.node.allowed_unsafe_sysctls);
  EXPECT_NE(offer->no_app_armor, "");
  const auto node = MakeNode(config, "1.2.3", {}, WallTime{}, WallTime{});
  for (const auto& [key, value] : offer->labels) EXPECT_EQ(node.metadata().labels().at(key), value);
  EXPECT_EQ(node.status().allocatable().at("pods").string(), "7");
  EXPECT_EQ(offer->allocatable.size(), node.status().allocatable().size());
  for (const auto& [name, amount] : offer->allocatable) {
    if (name == "memory") continue;  // may change with the cgroups above
    EXPECT_EQ(*kube::Amount::Parse(node.status().allocatable().at(name).string()), amount) << name;
  }
}

TEST(NodeTest, AReadingHasWhatPodsAndTheServerNeed) {
  const auto reading = NodeReader(Config(), "1.2", nullptr).Read(BootTime());
  EXPECT_EQ(reading->environment->node_name, "n1");
  EXPECT_EQ(reading->environment->resolv_conf, "") << "a missing file is an empty one";
  EXPECT_FALSE(reading->environment->host_ips.empty());
  EXPECT_EQ(reading->offer->name, "n1");
  EXPECT_EQ(reading->description->version, "1.2");
  EXPECT_FALSE(reading->description->machine.boot_id.empty());
}

TEST(NodeTest, WhatSeldomChangesIsReadEveryFiveMinutes) {
  NodeReader reader(Config(), "1.2", nullptr);
  const BootTime start(std::chrono::hours(1));
  const auto first = reader.Read(start)->standing;
  ASSERT_TRUE(first->cgroups);
  EXPECT_EQ(reader.Read(start + std::chrono::seconds(299))->standing, first);
  const auto second = reader.Read(start + std::chrono::seconds(300))->standing;
  EXPECT_NE(second, first);
  EXPECT_EQ(reader.Read(start + std::chrono::seconds(599))->standing, second);
}

TEST(NodeTest, CgroupsThatCannotBeSeenAreLookedForEachTime) {
  AgentConfig config = Config();
  config.instance.cgroup_root = "/nonexistent";
  NodeReader reader(config, "1.2", nullptr);
  const auto first = reader.Read(BootTime())->standing;
  EXPECT_FALSE(first->cgroups);
  EXPECT_NE(reader.Read(BootTime())->standing, first);
}

}  // namespace
}  // namespace holdfast::agent
