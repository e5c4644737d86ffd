// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/network_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "holdfast/base/strings.h"
#include "tests/support/eventually.h"
#include "tests/support/inotify_limit.h"
#include "tests/support/scripted_plugins.h"

namespace holdfast::agent::cni {
namespace {

using std::chrono::milliseconds;
using test_support::Eventually;
using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

std::string Named(const std::string& name, const std::string& version = "1.0.0") {
  return StrCat(R"({"cniVersion":")", version, R"(","name":")", name,
                R"(","plugins":[{"type":"bridge"}]})");
}

class NetworkWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto stop = sys::Wakeup::Make();
    ASSERT_TRUE(stop);
    stop_ = std::move(*stop);
    scripts_.Program("bridge", "");
    plugins_ = std::make_unique<Plugins>(std::vector<std::string>{scripts_.programs()},
                                         scripts_.file("owner"), stop_);
    options_.status_period = options_.retry_period = options_.look_period = std::chrono::hours(1);
  }
  void TearDown() override {
    stop_.Set();
    watch_.reset();
  }

  // Only what inotify tells is seen in time, unless a test sets a period.
  void Start() {
    options_.config_directory = scripts_.config();
    options_.plugin_directories = {scripts_.programs()};
    options_.log = [](const std::string&) {};
    options_.looked = [this](const NetworkConfig& network, bool changed) {
      const std::lock_guard lock(mutex_);
      if (changed) changes_.push_back(network.name);
    };
    auto watch = NetworkWatch::Start(options_, *plugins_, stop_);
    ASSERT_TRUE(watch) << watch.error().message();
    watch_ = std::move(*watch);
  }
  std::string Name() const {
    const auto current = watch_->Current();
    return current ? current->name : "";
  }
  std::vector<std::string> Changes() {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

  test_support::ScriptedPlugins scripts_;
  sys::Wakeup stop_;
  std::unique_ptr<Plugins> plugins_;
  NetworkWatchOptions options_;
  std::mutex mutex_;
  std::vector<std::string> changes_;
  std::unique_ptr<NetworkWatch> watch_;
};

TEST_F(NetworkWatchTest, TheDirectoryIsFollowed) {
  Start();
  EXPECT_EQ(watch_->Problem(),
            StrCat("Network plugin returns error: cni plugin not initialized: no network config "
                   "found in ",
                   scripts_.config()));
  EXPECT_EQ(Name(), "");
  scripts_.Configure("20-b.conflist", Named("b"));
  EXPECT_TRUE(Eventually([this] { return Name() == "b"; }));
  EXPECT_EQ(watch_->Problem(), "");
  scripts_.Configure("10-a.conflist", Named("a"));
  EXPECT_TRUE(Eventually([this] { return Name() == "a"; }));
  std::filesystem::remove(scripts_.config() + "/10-a.conflist");
  EXPECT_TRUE(Eventually([this] { return Name() == "b"; }));
  EXPECT_TRUE(Eventually([this] { return Changes().size() == 3; }));
  EXPECT_THAT(Changes(), ElementsAre("b", "a", "b"));
  scripts_.Configure("00-bad.conf", "{");
  EXPECT_TRUE(Eventually([this] { return Name().empty(); }));
  EXPECT_THAT(
      watch_->Problem(),
      StartsWith("Network plugin returns error: cni plugin not initialized: network config " +
                 scripts_.config() + "/00-bad.conf: "));
}

TEST_F(NetworkWatchTest, WithoutInotifyTheDirectoryIsLookedAt) {
  test_support::WithoutInotify([this] {
    options_.retry_period = milliseconds(20);
    scripts_.Configure("10-a.conflist", Named("a"));
    Start();
    EXPECT_EQ(Name(), "a");
    scripts_.Configure("10-a.conflist", Named("b"));
    EXPECT_TRUE(Eventually([this] { return Name() == "b"; }));
    stop_.Set();
    watch_.reset();
  });
}

TEST_F(NetworkWatchTest, WhatIsThereAtStartIsUsedAtOnce) {
  scripts_.Configure("10-a.conflist", Named("a"));
  Start();
  EXPECT_EQ(Name(), "a");
  EXPECT_TRUE(Eventually([this] { return Changes().size() == 1; }));
}

TEST_F(NetworkWatchTest, APluginThatIsInstalledLaterIsFound) {
  scripts_.Configure("10-a.conflist",
                     R"({"cniVersion":"1.0.0","name":"a","plugins":[{"type":"late"}]})");
  Start();
  EXPECT_THAT(
      watch_->Problem(),
      EndsWith(StrCat("10-a.conflist: plugin type=\"late\" failed (version): failed to find "
                      "plugin \"late\" in path [",
                      scripts_.programs(), "]")));
  scripts_.Program("late", "");
  EXPECT_TRUE(Eventually([this] { return Name() == "a"; }));
}

TEST_F(NetworkWatchTest, ADirectoryThatIsMadeLaterIsFollowed) {
  std::filesystem::remove(scripts_.config());
  options_.retry_period = milliseconds(20);
  Start();
  std::filesystem::create_directory(scripts_.config());
  scripts_.Configure("10-a.conflist", Named("a"));
  EXPECT_TRUE(Eventually([this] { return Name() == "a"; }));
}

TEST_F(NetworkWatchTest, WhatStatusSaysIsAProblemUntilItSaysOtherwise) {
  const std::string sick = scripts_.file("sick");
  scripts_.Program("bridge",
                   StrCat("[ $CNI_COMMAND = STATUS ] && [ -e ", sick,
                          R"( ] && { echo '{"code":50,"msg":"no daemon"}'; exit 1; }; :)"));
  scripts_.Configure("10-a.conflist", Named("a", "1.1.0"));
  options_.status_period = milliseconds(20);
  options_.retry_period = milliseconds(20);
  Start();
  std::mutex mutex;
  std::vector<std::string> told;
  watch_->SetListener([&](const std::string& problem) {
    const std::lock_guard lock(mutex);
    told.push_back(problem);
  });
  std::ofstream(sick).put('x');
  EXPECT_TRUE(Eventually([this] { return !watch_->Problem().empty(); }));
  EXPECT_EQ(Name(), "a") << "pods that are there keep it";
  std::filesystem::remove(sick);
  EXPECT_TRUE(Eventually([this] { return watch_->Problem().empty(); }));
  watch_->SetListener({});
  EXPECT_THAT(
      told, ElementsAre("",
                        "Network plugin returns error: plugin type=\"bridge\" failed (status): no "
                        "daemon",
                        ""));
}

}  // namespace
}  // namespace holdfast::agent::cni
