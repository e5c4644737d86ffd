// SPDX-License-Identifier: Apache-2.0
// A network's chain with scripted plugins: who is asked what, in which order, with which results.
#include "agent/cni/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "agent/base/program_orphans.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/process.h"
#include "tests/support/eventually.h"
#include "tests/support/scripted_plugins.h"

namespace holdfast::agent::cni {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test_support::PluginRun;
using test_support::ScriptedPlugins;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr char kAnswer[] =
    R"(echo '{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.7/24"}],"interfaces":[]}')";

class ChainTest : public testing::Test {
 protected:
  void SetUp() override {
    auto stop = sys::Wakeup::Make();
    ASSERT_TRUE(stop);
    stop_ = std::move(*stop);
    plugins_ = std::make_unique<Plugins>(
        std::vector<std::string>{"/no/such/directory", scripts_.programs()}, scripts_.file("owner"),
        stop_);
    scripts_.Program("bridge", kAnswer);
    scripts_.Program("portmap",
                     R"(echo '{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.8/24"}]}')");
    attached_.target = {"id1", "/run/netns/x", "eth0", "K8S_POD_NAME=web"};
    attached_.capabilities = Json::parse(R"({"portMappings":[{"hostPort":80}],"dns":{}})");
  }

  NetworkConfig Network(const std::string& version, const std::string& more = "") {
    auto network = ParseNetworkList(StrCat(R"({"cniVersion":")", version, R"(","name":"pods",)",
                                           more, R"("plugins":[{"type":"bridge","mtu":1400},
        {"type":"portmap","capabilities":{"portMappings":true,"dns":false,"bandwidth":true}}]})"));
    EXPECT_TRUE(network) << network.error().message();
    return *network;
  }
  static Deadline Soon() { return steady_clock::now() + seconds(20); }
  std::string AddError(const NetworkConfig& network, Deadline deadline = Soon()) {
    const auto added = Add(*plugins_, network, attached_, deadline);
    return added ? "" : added.error().message();
  }

  ScriptedPlugins scripts_;
  sys::Wakeup stop_;
  std::unique_ptr<Plugins> plugins_;
  Attached attached_;
  Json result_ = Json::parse(R"({"cniVersion":"1.0.0","ips":[{"address":"10.0.0.9/24"}]})");
};

TEST_F(ChainTest, AddGivesEachPluginTheResultOfTheOneBefore) {
  const auto added = Add(*plugins_, Network("1.0.0"), attached_, Soon());
  ASSERT_TRUE(added) << added.error().message();
  EXPECT_EQ(*added, Json::parse(R"({"cniVersion":"1.0.0","ips":[{"address":"10.0.0.8/24"}]})"));
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("bridge ADD", "portmap ADD"));
  for (const PluginRun& run : runs) {
    EXPECT_EQ(run.container_id, "id1");
    EXPECT_EQ(run.netns, "/run/netns/x");
    EXPECT_EQ(run.interface, "eth0");
    EXPECT_EQ(run.args, "K8S_POD_NAME=web");
    EXPECT_EQ(run.path, "/no/such/directory:" + scripts_.programs());
  }
  EXPECT_EQ(runs[0].config,
            Json::parse(R"({"cniVersion":"1.0.0","name":"pods","type":"bridge","mtu":1400})"));
  EXPECT_EQ(runs[1].config, Json::parse(R"({"cniVersion":"1.0.0","name":"pods","type":"portmap",
      "capabilities":{"portMappings":true,"dns":false,"bandwidth":true},
      "runtimeConfig":{"portMappings":[{"hostPort":80}]},
      "prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.7/24"}],"interfaces":[]}})"))
      << "what is not declared is not shown, and the result is in the network's version";
}

TEST_F(ChainTest, AFailureEndsItAndSaysWhatThePluginSaid) {
  scripts_.Program("bridge", R"(echo '{"cniVersion":"1.0.0","code":11,"msg":"try again",
      "details":"the bridge is busy"}'; exit 1)");
  EXPECT_EQ(AddError(Network("1.0.0")),
            "plugin type=\"bridge\" failed (add): try again; the bridge is busy");
  EXPECT_THAT(ScriptedPlugins::Labels(scripts_.TakeRuns()), ElementsAre("bridge ADD"));
}

TEST_F(ChainTest, EachWayToFailHasWords) {
  const auto says = [this](const std::string& script) {
    scripts_.Program("bridge", script);
    return AddError(Network("1.0.0"));
  };
  EXPECT_EQ(
      says("exit 3"),
      "plugin type=\"bridge\" failed (add): netplugin failed with no error message: exit code 3");
  EXPECT_THAT(says("echo panic: nil >&2; exit 2"),
              StartsWith("plugin type=\"bridge\" failed (add): netplugin failed: panic: nil"));
  EXPECT_THAT(says("echo no JSON; exit 1"),
              HasSubstr("netplugin failed but error parsing its diagnostic message \"no JSON"));
  EXPECT_THAT(says("echo '{'; exit 0"),
              StartsWith("plugin type=\"bridge\" failed (add): result: "));
  EXPECT_THAT(says("kill -9 $$"), HasSubstr("exit code 137"));
  EXPECT_THAT(says("head -c 2000000 /dev/zero"), HasSubstr("wrote more than 1048576 bytes"));
}

TEST_F(ChainTest, AMissingProgramIsToldWithItsPath) {
  std::filesystem::remove(scripts_.programs() + "/bridge");
  EXPECT_EQ(AddError(Network("1.0.0")),
            StrCat("plugin type=\"bridge\" failed (add): failed to find plugin \"bridge\" in path "
                   "[/no/such/directory ",
                   scripts_.programs(), "]"));
}

TEST_F(ChainTest, APluginThatHangsEndsWithTheDeadlineOfTheWholeChain) {
  scripts_.Program("portmap", "sleep 60 & sleep 60");
  const auto begun = steady_clock::now();
  EXPECT_THAT(AddError(Network("1.0.0"), begun + seconds(4)),
              MatchesRegex(R"(plugin type="portmap" failed \(add\): no end within [0-9]+ ms)"));
  EXPECT_LT(steady_clock::now() - begun, seconds(50)) << "it would sleep for longer";
}

TEST_F(ChainTest, StopEndsWhatRuns) {
  scripts_.Program("bridge", "sleep 60");
  std::thread stopper([this] {
    EXPECT_TRUE(test_support::Eventually([this] { return !scripts_.TakeRuns().empty(); }));
    stop_.Set();
  });
  EXPECT_EQ(AddError(Network("1.0.0")), "plugin type=\"bridge\" failed (add): the agent stops");
  stopper.join();
}

TEST_F(ChainTest, AProgramThatIsBeingWrittenIsTriedAgain) {
  const std::string path = scripts_.programs() + "/bridge";
  auto writer = std::make_unique<std::ofstream>(path, std::ios::app);
  std::thread closer([&writer] {
    std::this_thread::sleep_for(milliseconds(300));
    writer.reset();
  });
  EXPECT_EQ(AddError(Network("1.0.0")), "");
  closer.join();
}

TEST_F(ChainTest, DelGoesBackwardsWithTheResultOfTheAdd) {
  ASSERT_TRUE(Del(*plugins_, Network("0.4.0"), attached_, result_, Soon()));
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("portmap DEL", "bridge DEL"));
  for (const PluginRun& run : runs) EXPECT_EQ(run.config.at("prevResult"), result_);
  EXPECT_EQ(runs[0].config.at("runtimeConfig"),
            Json::parse(R"({"portMappings":[{"hostPort":80}]})"));

  ASSERT_TRUE(Del(*plugins_, Network("0.3.1"), attached_, result_, Soon()));
  EXPECT_FALSE(scripts_.TakeRuns().at(0).config.contains("prevResult")) << "older than that";
  ASSERT_TRUE(Del(*plugins_, Network("1.0.0"), attached_, Json(), Soon()));
  EXPECT_FALSE(scripts_.TakeRuns().at(0).config.contains("prevResult")) << "it is not known";

  scripts_.Program("portmap", R"(echo '{"code":100,"msg":"no"}'; exit 1)");
  const auto failed = Del(*plugins_, Network("1.0.0"), attached_, result_, Soon());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "plugin type=\"portmap\" failed (delete): no");
}

// By the specification's code, or in the words that containerd takes for it; the plugins before it are asked all the same.
TEST_F(ChainTest, WhatAPluginKnowsNothingOfNeedsNoDel) {
  const auto del = [this](const std::string& answer, const std::string& netns) {
    scripts_.Program("portmap", StrCat("echo '", answer, "'; exit 1"));
    attached_.target.netns = netns;
    const auto done = Del(*plugins_, Network("1.0.0"), attached_, result_, Soon());
    EXPECT_EQ(scripts_.TakeRuns().size(), done ? 2u : 1u);
    return done.has_value();
  };
  EXPECT_TRUE(del(R"({"code":3,"msg":"no such container"})", "/run/netns/x"));
  EXPECT_TRUE(del(R"({"code":100,"msg":"link eth0 not found"})", "/run/netns/x"));
  EXPECT_TRUE(del(R"({"code":5,"msg":"open: no such file or directory"})", ""));
  EXPECT_FALSE(del(R"({"code":5,"msg":"open: no such file or directory"})", "/run/netns/x"));
  EXPECT_FALSE(del(R"({"code":11,"msg":"try again later"})", "/run/netns/x"));
  EXPECT_FALSE(del(R"({"code":"3","msg":"a text"})", "/run/netns/x"));
  std::filesystem::remove(scripts_.programs() + "/portmap");
  EXPECT_FALSE(Del(*plugins_, Network("1.0.0"), attached_, result_, Soon()))
      << "a program that is not there has said nothing";
}

TEST_F(ChainTest, CheckIsAskedInOrderUnlessItMayNotBe) {
  ASSERT_TRUE(Check(*plugins_, Network("0.4.0"), attached_, result_, Soon()));
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("bridge CHECK", "portmap CHECK"));
  EXPECT_EQ(runs[1].config.at("prevResult"), result_);
  ASSERT_TRUE(Check(*plugins_, Network("0.3.1"), attached_, result_, Soon()));
  ASSERT_TRUE(
      Check(*plugins_, Network("1.0.0", "\"disableCheck\":true,"), attached_, result_, Soon()));
  EXPECT_THAT(scripts_.TakeRuns(), IsEmpty());
}

TEST_F(ChainTest, StatusIsOfVersion110) {
  ASSERT_TRUE(Status(*plugins_, Network("1.0.0"), Soon()));
  EXPECT_THAT(scripts_.TakeRuns(), IsEmpty());
  scripts_.Program("portmap", R"(echo '{"code":50,"msg":"no firewall"}'; exit 1)");
  const auto status = Status(*plugins_, Network("1.1.0"), Soon());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "plugin type=\"portmap\" failed (status): no firewall");
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("bridge STATUS", "portmap STATUS"));
  EXPECT_EQ(runs[0].container_id, "");
}

TEST_F(ChainTest, GarbageIsAllThatIsNotNamed) {
  scripts_.Program("bridge", R"(echo '{"code":100,"msg":"no"}'; exit 1)");
  const std::vector<ValidAttachment> valid = {{"id1", "eth0"}, {"id2", "eth0"}};
  const auto collected = GarbageCollect(*plugins_, Network("1.1.0"), valid, Soon());
  ASSERT_FALSE(collected);
  EXPECT_EQ(collected.error().message(), "plugin type=\"bridge\" failed (gc): no");
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("bridge GC", "portmap GC"))
      << "each is asked, whatever the others say";
  EXPECT_EQ(runs[1].config.at("cni.dev/valid-attachments"),
            Json::parse(R"([{"containerID":"id1","ifname":"eth0"},
                            {"containerID":"id2","ifname":"eth0"}])"));
  scripts_.Program("bridge", "");
  ASSERT_TRUE(GarbageCollect(*plugins_, Network("1.1.0"), {}, Soon()));
  EXPECT_EQ(scripts_.TakeRuns().at(0).config.at("cni.dev/valid-attachments"), Json::array());
  ASSERT_TRUE(GarbageCollect(*plugins_, Network("1.0.0"), valid, Soon()));
  ASSERT_TRUE(GarbageCollect(*plugins_, Network("1.1.0", "\"disableGC\":true,"), valid, Soon()));
  EXPECT_THAT(scripts_.TakeRuns(), IsEmpty());
}

TEST_F(ChainTest, TheHighestVersionThatAllSpeakIsAgreedOn) {
  const auto agreed = [this](const std::string& versions) {
    const auto network = Network("0.4.0", StrCat("\"cniVersions\":[", versions, "],"));
    const auto version = AgreeOnVersion(*plugins_, network, Soon());
    return version ? *version : version.error().message();
  };
  EXPECT_EQ(agreed(R"("1.0.0","1.1.0")"), "1.1.0");
  scripts_.Program("portmap", "", R"("0.3.1","0.4.0","1.0.0")");
  EXPECT_EQ(agreed(R"("1.0.0","1.1.0")"), "1.0.0");
  EXPECT_EQ(agreed(""), "0.4.0");
  scripts_.Program("portmap", "", R"("0.1.0")");
  EXPECT_EQ(agreed(""),
            "plugin type=\"portmap\" does not speak cniVersion 0.4.0 of network \"pods\"");
  scripts_.Program("portmap", "echo '{}'", "");
  EXPECT_EQ(agreed(""), "plugin type=\"portmap\" failed (version): it says no supportedVersions");
}

TEST_F(ChainTest, WhatAFormerAgentLeftRunningIsEnded) {
  // Its parent is killed as an agent is: the plugin and what it started go on.
  scripts_.Program("bridge", StrCat("sleep 60 & echo $! > ", scripts_.file("child"), "; wait"));
  std::thread former([this] { (void)AddError(Network("1.0.0")); });
  std::string child;
  ASSERT_TRUE(test_support::Eventually([&] {
    child = test_support::ReadText(scripts_.file("child"));
    return child.ends_with("\n");
  }));
  EXPECT_TRUE(EndOrphans(scripts_.file("other")));
  EXPECT_EQ(::kill(std::stoi(child), 0), 0) << "it is not this one's";
  EXPECT_TRUE(EndOrphans(scripts_.file("owner")));
  former.join();
  EXPECT_TRUE(test_support::Eventually([&] { return ::kill(std::stoi(child), 0) != 0; }));
}

}  // namespace
}  // namespace holdfast::agent::cni
