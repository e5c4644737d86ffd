// SPDX-License-Identifier: Apache-2.0
// A pod's attachment over its life, with plugins that do what the test says: failures, changes, hangs, restarts.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/system/agent/cni/cni_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;
using test_support::PluginRun;
using test_support::ScriptedPlugins;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Scripted : public CniFixture {
 protected:
  void SetUp() override {
    CniFixture::SetUp();
    if (IsSkipped()) return;
    scripts_.Program("first", Adds("10.0.0.7"));
    scripts_.Program("second", Adds("10.0.0.7"));
    Use("pods");
    Open();
  }
  // Answers an ADD with this address; the rest succeeds.
  static std::string Adds(const std::string& ip) {
    return StrCat(
        "[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"", ip,
        "/24\"}]}'; exit 0");
  }
  void Use(const std::string& name, const std::string& version = "1.0.0",
           const std::string& more = "") {
    scripts_.Configure("10-pods.conflist",
                       StrCat(R"({"cniVersion":")", version, R"(","name":")", name, R"(",)", more,
                              R"("plugins":[{"type":"first"},{"type":"second"}]})"));
  }
  PluginRun FirstAdd() {
    const std::vector<PluginRun> runs = scripts_.TakeRuns();
    const auto found = std::ranges::find(runs, "first ADD", &PluginRun::Label);
    return found == runs.end() ? PluginRun() : *found;
  }
  void UseAndWait(const std::string& name, const std::string& version = "1.0.0") {
    Use(name, version);
    // The next pod is attached by it.
    EXPECT_TRUE(Eventually([&] {
      const Pod probe = MakePod("probe");
      const bool used = FirstAdd().config.at("name") == name;
      EXPECT_OK(network_->Teardown(probe.request.uid));
      return used;
    }));
    scripts_.TakeRuns();
  }
  std::vector<std::string> TakeLabels() { return ScriptedPlugins::Labels(scripts_.TakeRuns()); }
};

TEST_F(Scripted, APodIsAttachedOnceAndDetachedAsItWasAttached) {
  Pod pod = MakePod("a");
  EXPECT_THAT(pod.ips, ElementsAre("10.0.0.7"));
  std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("first ADD", "second ADD"));
  const std::string id = runs[0].container_id;
  EXPECT_EQ(id.size(), 64u);
  EXPECT_EQ(runs[0].netns, scripts_.file("netns/cni-" + id));
  EXPECT_EQ(runs[0].interface, "eth0");
  EXPECT_THAT(runs[0].args, HasSubstr("K8S_POD_NAME=a;K8S_POD_INFRA_CONTAINER_ID=" + id));
  auto inside = sys::Rtnl::OpenIn(pod.netns.get());
  EXPECT_TRUE(inside->GetLink("lo")->up);

  ASSERT_OK(network_->Setup(pod.request));
  EXPECT_THAT(TakeLabels(), IsEmpty()) << "it stands";
  UseAndWait("others");
  ASSERT_OK(network_->Teardown(pod.request.uid));
  runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs), ElementsAre("second DEL", "first DEL"));
  EXPECT_EQ(runs[0].container_id, id);
  EXPECT_EQ(runs[0].netns, scripts_.file("netns/cni-" + id));
  EXPECT_EQ(runs[0].config.at("name"), "pods") << "the network of its ADD";
  EXPECT_EQ(runs[0].config.at("prevResult").at("ips").at(0).at("address"), "10.0.0.7/24");
}

TEST_F(Scripted, ANewSandboxOfAPodIsAttachedAnewAfterTheFormerWasDetached) {
  Pod pod = MakePod("a");
  const std::string former = scripts_.TakeRuns().at(0).container_id;
  auto netns = sys::NewNetworkNamespace();
  ASSERT_OK(netns);
  pod.request.network_namespace = netns->get();
  ASSERT_OK(network_->Setup(pod.request));
  const std::vector<PluginRun> runs = scripts_.TakeRuns();
  ASSERT_THAT(ScriptedPlugins::Labels(runs),
              ElementsAre("second DEL", "first DEL", "first ADD", "second ADD"));
  EXPECT_EQ(runs[0].container_id, former);
  EXPECT_NE(runs[2].container_id, former);
  EXPECT_EQ(Pins().size(), 1u);
}

TEST_F(Scripted, AnAddThatFailsIsTakenBackWhole) {
  scripts_.Program(
      "second",
      R"([ $CNI_COMMAND = ADD ] && { echo '{"code":11,"msg":"busy"}'; exit 1; }; exit 0)");
  const Pod pod = NewPod("a");
  const auto failed = network_->Setup(pod.request);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(),
              testing::MatchesRegex("failed to setup network for sandbox \"[0-9a-f]{64}\": plugin "
                                    "type=\"second\" failed \\(add\\): busy"));
  EXPECT_THAT(TakeLabels(), ElementsAre("first ADD", "second ADD", "second DEL", "first DEL"));
  EXPECT_FALSE(network_->Holds(pod.request.uid));
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(Pins(), IsEmpty());
}

TEST_F(Scripted, AnAddWithoutAnAddressHasFailed) {
  scripts_.Program("second", R"([ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.0.0"}'; exit 0)");
  const Pod pod = NewPod("a");
  const auto failed = network_->Setup(pod.request);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(),
              HasSubstr("no plugin of network \"pods\" gave eth0 an address"));
  EXPECT_THAT(TakeLabels(), ElementsAre("first ADD", "second ADD", "second DEL", "first DEL"));
}

TEST_F(Scripted, WhatCannotBeDetachedIsRememberedAndDetachedBeforeItIsAttachedAgain) {
  const std::string bad = scripts_.file("bad");
  scripts_.Program("second",
                   StrCat("[ -e ", bad, R"( ] && { echo '{"code":5,"msg":"no"}'; exit 1; };)",
                          Adds("10.0.0.7")));
  std::ofstream(bad).put('x');
  const Pod pod = NewPod("a");
  const auto failed = network_->Setup(pod.request);
  ASSERT_FALSE(failed);
  EXPECT_THAT(
      failed.error().message(),
      testing::MatchesRegex("failed to setup network for sandbox \"[0-9a-f]{64}\": plugin "
                            "type=\"second\" failed \\(add\\): no; and afterwards: failed to "
                            "destroy network for sandbox \"[0-9a-f]{64}\": plugin "
                            "type=\"second\" failed \\(delete\\): no"));
  EXPECT_TRUE(network_->Holds(pod.request.uid));
  EXPECT_THAT(network_->Addresses(pod.request.uid), IsEmpty());
  Open();
  EXPECT_TRUE(network_->Holds(pod.request.uid)) << "another agent knows it too";
  scripts_.TakeRuns();
  EXPECT_FALSE(network_->Setup(pod.request));
  EXPECT_THAT(TakeLabels(), ElementsAre("second DEL"));
  std::filesystem::remove(bad);
  ASSERT_OK(network_->Setup(pod.request));
  EXPECT_THAT(TakeLabels(), ElementsAre("second DEL", "first DEL", "first ADD", "second ADD"));
}

TEST_F(Scripted, APodThatIsBeingDetachedHasNoAddressesAnyMore) {
  const Pod pod = MakePod("a");
  scripts_.Program("second", R"(echo '{"code":5,"msg":"no"}'; exit 1)");
  EXPECT_FALSE(network_->Teardown(pod.request.uid));
  EXPECT_THAT(network_->Addresses(pod.request.uid), IsEmpty());
  EXPECT_TRUE(network_->Holds(pod.request.uid));
  scripts_.Program("second", "exit 0");
  ASSERT_OK(network_->Teardown(pod.request.uid));
  EXPECT_THAT(Records(), IsEmpty());
}

TEST_F(Scripted, APluginThatHangsHoldsUpItsOwnPodOnly) {
  scripts_.Program(
      "second",
      "case \"$CNI_ARGS\" in *K8S_POD_NAME=slow*) [ $CNI_COMMAND = ADD ] && exec sleep 60;; esac;" +
          Adds("10.0.0.7"));
  CniOptions options = Options();
  options.verb_limit = std::chrono::seconds(8);
  Open(std::move(options));
  const Pod slow = NewPod("slow");
  Result<std::vector<std::string>> outcome = std::vector<std::string>();
  std::atomic<bool> over = false;
  std::thread waiting([&] {
    outcome = network_->Setup(slow.request);
    over = true;
  });
  EXPECT_TRUE(Eventually([this] { return network_->Holds(PodUid("uid-slow")); }));
  const Pod quick = MakePod("quick");
  ASSERT_OK(network_->Teardown(quick.request.uid));
  EXPECT_FALSE(over);
  waiting.join();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message(),
              HasSubstr("plugin type=\"second\" failed (add): no end within"));
  EXPECT_FALSE(network_->Holds(slow.request.uid));
}

TEST_F(Scripted, WithoutANetworkNoPodIsAttachedAndThoseThatAreStayDetachable) {
  const Pod pod = MakePod("a");
  std::filesystem::remove(scripts_.config() + "/10-pods.conflist");
  EXPECT_TRUE(Eventually([this] { return !network_->NotReadyBecause().empty(); }));
  EXPECT_THAT(network_->NotReadyBecause(),
              testing::StartsWith("Network plugin returns error: cni plugin not initialized"));
  EXPECT_EQ(network_->Addresses(pod.request.uid), pod.ips);
  const Pod other = NewPod("b");
  const auto refused = network_->Setup(other.request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_FALSE(network_->Holds(other.request.uid));
  ASSERT_OK(network_->Teardown(pod.request.uid));
}

TEST_F(Scripted, GarbageIsCollectedAtStartAndWhenTheNetworkChanges) {
  UseAndWait("pods", "1.1.0");
  const Pod a = MakePod("a");
  const std::string id = FirstAdd().container_id;
  const auto collected = [this] {
    std::vector<nlohmann::json> lists;
    for (const PluginRun& run : scripts_.TakeRuns()) {
      if (run.Label() == "first GC") lists.push_back(run.config.at("cni.dev/valid-attachments"));
    }
    return lists;
  };
  network_.reset();
  scripts_.TakeRuns();  // the collection for the change above came at any time up to here
  Open();
  std::vector<nlohmann::json> lists;
  EXPECT_TRUE(Eventually([&] {
    lists = collected();
    return !lists.empty();
  }));
  const nlohmann::json valid = {{{"containerID", id}, {"ifname", "eth0"}}};
  EXPECT_THAT(lists, ElementsAre(valid));
  ::usleep(300'000);
  EXPECT_THAT(collected(), IsEmpty()) << "once";
  Use("pods", "1.1.0", "\"x\":1,");
  ::usleep(300'000);
  EXPECT_THAT(collected(), IsEmpty()) << "the same network";
  Use("others", "1.1.0");
  EXPECT_TRUE(Eventually([&] {
    lists = collected();
    return !lists.empty();
  }));
  EXPECT_THAT(lists, ElementsAre(nlohmann::json::array())) << "none of that network";
}

TEST_F(Scripted, WhatBelongsToNoPodIsFoundAndDetached) {
  const Pod a = MakePod("a");
  const Pod b = MakePod("b");
  EXPECT_THAT(*network_->Audit({}, true), IsEmpty()) << "they were made just now";
  Open();
  scripts_.TakeRuns();
  const auto found = network_->Audit({a.request.uid}, false);
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].kind, "attachment");
  EXPECT_EQ((*found)[0].reason, "of pod default/b to network \"pods\", no live pod");
  ASSERT_OK(network_->Audit({a.request.uid}, true));
  EXPECT_THAT(Records(), ElementsAre("uid-a"));
  EXPECT_TRUE(network_->Holds(a.request.uid));
}

TEST_F(Scripted, WhatNoPluginDeclaresIsTold) {
  Pod pod = NewPod("a", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  pod.request.bandwidth.ingress = 1'000'000;
  EXPECT_THAT(
      network_->LeftOut(pod.request),
      ElementsAre("hostPort: no plugin of network \"pods\" has the capability portMappings, "
                  "so it has no effect",
                  "annotations kubernetes.io/ingress-bandwidth and "
                  "kubernetes.io/egress-bandwidth: no plugin of network \"pods\" has the "
                  "capability bandwidth, so it has no effect"));
}

TEST_F(Scripted, TheNodesFamilyComesFirst) {
  scripts_.Program("second", R"([ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.0.0","ips":[
      {"address":"10.0.0.7/24"},{"address":"fd00::7/64"}]}'; exit 0)");
  EXPECT_THAT(MakePod("a").ips, ElementsAre("10.0.0.7", "fd00::7"));
  CniOptions options = Options();
  options.prefers_v6 = [] { return true; };
  Open(std::move(options));
  EXPECT_THAT(network_->Addresses(PodUid("uid-a")), ElementsAre("fd00::7", "10.0.0.7"));
}

}  // namespace
}  // namespace holdfast::agent
