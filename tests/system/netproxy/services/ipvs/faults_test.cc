// SPDX-License-Identifier: Apache-2.0
// kill -9 of an agent whose Services are in IPVS: the next start converges, and a connection that
// was there goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/support/killed_process.h"
#include "tests/system/netproxy/services/crowd.h"
#include "tests/system/netproxy/services/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

// The process that is killed: this program again, with only this test. Loads, changes, takes away.
TEST(IpvsDriver, DISABLED_Load) {
  const char* state = std::getenv("HOLDFAST_DRIVER_STATE");
  if (state == nullptr) GTEST_SKIP() << "run by the kill tests";
  ipvs::IpvsOptions options;
  options.state_dir = state;
  auto back_end = ipvs::IpvsBackEnd::Open(options);
  ASSERT_OK(back_end);
  const size_t loaded = std::stoul(std::getenv("HOLDFAST_DRIVER_SERVICES"));
  const auto all = Crowd(loaded + 100, false);
  model::ServiceChange change;
  change.complete = true;
  change.settings = std::make_shared<model::ServiceSettings>();
  change.rows = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(loaded)};
  ASSERT_OK((*back_end)->Apply(change));
  change.complete = false;
  for (size_t i = loaded; i < all.size(); i += 25) {
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(i);
    change.rows = {at, at + 25};
    change.removed.clear();
    for (size_t gone = i - loaded; gone < i - loaded + 25; ++gone) {
      change.removed.push_back(all[gone]->key);
    }
    ASSERT_OK((*back_end)->Apply(change));
    ASSERT_OK((*back_end)->Repair());
  }
}

class IpvsKills : public IpvsWorld {
 protected:
  pid_t Start(size_t services, const std::string& pause_at) const {
    return test_support::StartDriver(
        "IpvsDriver.DISABLED_Load",
        {"HOLDFAST_DRIVER_STATE=" + options_.state_dir,
         StrCat("HOLDFAST_DRIVER_SERVICES=", services), "HOLDFAST_PAUSE_DIR=" + directory_,
         "HOLDFAST_PAUSE_AT=" + pause_at});
  }
  // A connection through a cluster IP, before anything is killed.
  void KeepAConnection() {
    Apply(true, {RowOf({"t/web", model::L4Protocol::kTcp, {"a"}, "vip:10"}, false)});
    kept_ = Hold("client", "10.96.0.10", 80);
    ASSERT_TRUE(kept_.second);
  }

  void ExpectAWorkingStart(const std::string& when) {
    Restart();
    auto rows = Crowd(50, false);
    rows.push_back(RowOf({"t/web", model::L4Protocol::kTcp, {"a"}, "vip:10"}, false));
    EXPECT_TRUE(ServiceRunner::Apply(true, rows).refused.empty()) << when;
    EXPECT_EQ(back_end_->Repair().value_or(99), 0u) << when;
    EXPECT_EQ(Observe().size(), 51u) << when << ": what was taken away is gone";
    EXPECT_EQ(Try("client", "10.96.0.10", 80).endpoint, "a") << when;
    EXPECT_TRUE(Talks(kept_)) << when;
  }

  std::pair<UniqueFd, UniqueFd> kept_;
};

TEST_F(IpvsKills, EveryPausePointIsFollowedByAWorkingStart) {
  KeepAConnection();
  int status = 0;
  ::waitpid(Start(200, "?"), &status, 0);
  EXPECT_EQ(status, 0);
  const std::map<std::string, int> passages = test_support::Passages(directory_);
  ASSERT_GE(passages.size(), 5u) << "built without pause points?";
  for (const auto& [name, count] : passages) {
    for (const int passage : {1, 2, count / 2}) {
      if (passage > count || passage < 1) continue;
      const std::string at = StrCat(name, ":", passage);
      const pid_t pid = Start(200, at);
      // Some points lie on the way of a first load only.
      if (test_support::WaitForStop(pid)) test_support::Kill(pid);
      ExpectAWorkingStart(at);
    }
  }
}

TEST_F(IpvsKills, RandomMomentsOfALargeLoadAreFollowedByAWorkingStart) {
  KeepAConnection();
  test_support::KillAtWork(
      6, {.start = [this] { return Start(10000, ""); },
          .prepare = {},
          .expect = [this](const std::string& when) { ExpectAWorkingStart(when); }});
}

}  // namespace
}  // namespace holdfast::netproxy
