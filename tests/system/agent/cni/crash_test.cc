// SPDX-License-Identifier: Apache-2.0
// kill -9 of the process that attaches and detaches a pod: at every pause point, and while a plugin runs. What plugins
// keep for it goes with the pod, whatever happened before.
#include <map>

#include "holdfast/sys/files.h"
#include "tests/support/eventually.h"
#include "tests/support/killed_process.h"
#include "tests/system/agent/cni/cni_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;
using testing::ElementsAre;
using testing::IsEmpty;

CniOptions OptionsBelow(const std::string& top) {
  CniOptions options;
  options.config_directory = top + "/net.d";
  options.plugin_directories = {top + "/bin"};
  options.cache_directory = top + "/cache";
  options.netns_directory = top + "/netns";
  options.log = [](const std::string&) {};
  return options;
}

PodNetworkRequest RequestFor(int netns) {
  PodNetworkRequest request;
  request.uid = PodUid("uid-a");
  request.pod_namespace = "default";
  request.pod_name = "a";
  request.network_namespace = netns;
  return request;
}

TEST(CniDriver, DISABLED_AttachAndDetach) {
  const char* top = std::getenv("HOLDFAST_DRIVER_TOP");
  if (top == nullptr) GTEST_SKIP() << "only for the crash tests";
  auto network = CniNetwork::Open(OptionsBelow(top));
  ASSERT_OK(network);
  auto netns = sys::OpenAt(AT_FDCWD, std::getenv("HOLDFAST_DRIVER_NETNS"), O_RDONLY);
  ASSERT_OK(netns);
  ASSERT_OK((*network)->Setup(RequestFor(netns->get())));
  ASSERT_OK((*network)->Teardown(PodUid("uid-a")));
}

class CniCrash : public CniFixture {
 protected:
  void SetUp() override {
    CniFixture::SetUp();
    if (IsSkipped()) return;
    // Each keeps a file per container, as host-local keeps addresses.
    for (const std::string name : {"first", "second"}) {
      std::filesystem::create_directory(scripts_.file(name));
      scripts_.Program(
          name,
          StrCat("kept=", scripts_.file(name), "/$CNI_CONTAINERID\ncase $CNI_COMMAND in\n",
                 "ADD) [ -e $kept ] && exit 1; : > $kept; [ -e ", scripts_.file("slow-" + name),
                 " ] && { sleep 3; : > ", scripts_.file("late"), "; }\n",
                 R"(echo '{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.7/24"}]}';;)",
                 "\nDEL) rm -f $kept;;\nesac\nexit 0"));
    }
    scripts_.Configure("10-pods.conflist", R"({"cniVersion":"1.0.0","name":"pods",
        "plugins":[{"type":"first"},{"type":"second"}]})");
    auto netns = sys::NewNetworkNamespace();
    ASSERT_OK(netns);
    netns_ = std::move(*netns);
    std::filesystem::create_directory(scripts_.file("pause"));
  }

  pid_t StartDriver(const std::string& pause_at) {
    return test_support::StartDriver(
        "CniDriver.DISABLED_AttachAndDetach",
        {StrCat("HOLDFAST_DRIVER_TOP=", scripts_.file("")),
         StrCat("HOLDFAST_DRIVER_NETNS=/proc/", ::getpid(), "/fd/", netns_.get()),
         StrCat("HOLDFAST_PAUSE_DIR=", scripts_.file("pause")),
         StrCat("HOLDFAST_PAUSE_AT=", pause_at)});
  }
  // The pod is made anew by the agent that comes then, and goes.
  void ExpectNothingIsLeft(const std::string& when) {
    Open(OptionsBelow(scripts_.file("")));
    const auto made = network_->Setup(RequestFor(netns_.get()));
    ASSERT_TRUE(made) << when << ": " << made.error().message();
    EXPECT_EQ(Kept("first").size(), 1u) << when;
    EXPECT_EQ(Kept("second").size(), 1u) << when;
    EXPECT_EQ(Pins().size(), 1u) << when;
    const auto gone = network_->Teardown(PodUid("uid-a"));
    ASSERT_TRUE(gone) << when << ": " << gone.error().message();
    ExpectNothing(when);
    network_.reset();
  }
  void ExpectNothing(const std::string& when) {
    EXPECT_THAT(Kept("first"), IsEmpty()) << when;
    EXPECT_THAT(Kept("second"), IsEmpty()) << when;
    EXPECT_THAT(Pins(), IsEmpty()) << when;
    EXPECT_THAT(Records(), IsEmpty()) << when;
  }
  std::vector<std::string> Kept(const std::string& plugin) const {
    return Names(scripts_.file(plugin));
  }

  NsFd netns_;
};

TEST_F(CniCrash, AtEveryPausePointNothingLeaks) {
  const pid_t whole = StartDriver("?");
  ASSERT_FALSE(test_support::WaitForStop(whole));
  ExpectNothing("after a whole life");
  std::map<std::string, int> points = test_support::Passages(scripts_.file("pause"));
  std::erase_if(points, [](const auto& point) { return !point.first.starts_with("cni."); });
  ASSERT_GE(points.size(), 8u);
  for (const auto& [name, times] : points) {
    for (int time = 1; time <= times; ++time) {
      const std::string at = StrCat(name, ":", time);
      const pid_t driver = StartDriver(at);
      ASSERT_TRUE(test_support::WaitForStop(driver)) << at;
      test_support::Kill(driver);
      ExpectNothingIsLeft(at);
    }
  }
}

// A plugin outlives its agent: what it would do yet must not be done behind the next one's back.
TEST_F(CniCrash, APluginThatRunsWhenTheAgentIsKilledIsEnded) {
  std::ofstream(scripts_.file("slow-second")).put('x');
  const pid_t driver = StartDriver("");
  ASSERT_TRUE(Eventually([this] { return Kept("second").size() == 1; }));
  test_support::Kill(driver);
  std::filesystem::remove(scripts_.file("slow-second"));
  ExpectNothingIsLeft("in the middle of an ADD");
  ::usleep(3'500'000);
  EXPECT_FALSE(std::filesystem::exists(scripts_.file("late")));
  ExpectNothing("later");
}

}  // namespace
}  // namespace holdfast::agent
