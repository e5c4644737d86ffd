// SPDX-License-Identifier: Apache-2.0
// A node in namespaces of its own (network and mounts), and pods in theirs, attached by CNI plugins.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/cni/cni_network.h"
#include "holdfast/base/strings.h"
#include "tests/support/own_mounts.h"
#include "tests/support/scripted_plugins.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::agent {

using netproxy::Command;

class CniFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    // Pins are mounts: they end with the test.
    ASSERT_TRUE(test::EnterOwnMountNamespace());
    Command("ip link set lo up");
  }
  void TearDown() override {
    network_.reset();
    test::UnmountEntries(scripts_.file("netns"));
  }

  CniOptions Options() const {
    CniOptions options;
    options.config_directory = scripts_.config();
    options.plugin_directories = {scripts_.programs(), "/usr/lib/cni"};
    options.cache_directory = scripts_.file("cache");
    options.netns_directory = scripts_.file("netns");
    options.log = [](const std::string&) {};
    options.watch.verb_limit = std::chrono::seconds(60);  // this machine may be busy
    options.watch.status_period = std::chrono::milliseconds(50);
    options.watch.retry_period = std::chrono::milliseconds(50);
    options.watch.look_period = std::chrono::milliseconds(200);
    return options;
  }
  // As a restarted agent: what is in memory is gone.
  void Open(CniOptions options) {
    network_.reset();
    auto network = CniNetwork::Open(std::move(options));
    ASSERT_OK(network);
    network_ = std::move(*network);
  }
  void Open() { Open(Options()); }

  struct Pod {
    PodNetworkRequest request;
    NsFd netns;
    std::vector<std::string> ips;
  };
  static Pod NewPod(const std::string& name, std::vector<HostPort> ports = {}) {
    Pod pod;
    auto netns = sys::NewNetworkNamespace();
    EXPECT_OK(netns);
    pod.netns = std::move(*netns);
    pod.request.uid = PodUid("uid-" + name);
    pod.request.pod_namespace = "default";
    pod.request.pod_name = name;
    pod.request.network_namespace = pod.netns.get();
    pod.request.host_ports = std::move(ports);
    return pod;
  }
  Pod MakePod(const std::string& name, std::vector<HostPort> ports = {}) {
    Pod pod = NewPod(name, std::move(ports));
    auto ips = network_->Setup(pod.request);
    EXPECT_OK(ips);
    if (ips) pod.ips = *ips;
    return pod;
  }

  static std::vector<std::string> Names(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  std::vector<std::string> Records() const { return Names(scripts_.file("cache/attachments")); }
  std::vector<std::string> Pins() const { return Names(scripts_.file("netns")); }

  test_support::ScriptedPlugins scripts_;
  std::unique_ptr<CniNetwork> network_;
};

}  // namespace holdfast::agent
