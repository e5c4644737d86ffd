// SPDX-License-Identifier: Apache-2.0
// What may go wrong around the iptables back end: others who change our chains, and kill -9, also
// of an agent whose iptables-restore outlives it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/support/eventually.h"
#include "tests/support/killed_process.h"
#include "tests/system/netproxy/services/crowd.h"
#include "tests/system/netproxy/services/iptables/iptables_world.h"

namespace holdfast::netproxy {
namespace {

using Clock = std::chrono::steady_clock;

std::string NameOfWorld(const ::testing::TestParamInfo<std::tuple<std::string, bool>>& p) {
  return StrCat(std::get<0>(p.param), std::get<1>(p.param) ? "6" : "4");
}

class IptablesFaults : public IptablesWorld {
 protected:
  // Whether there is news before the deadline.
  bool IsTold(Clock::time_point deadline) {
    const auto watch = iptables_->watch();
    while (Clock::now() < deadline) {
      if (!WaitFor(watch->fd(), POLLIN, 50)) continue;
      const auto touched = watch->Drain();
      EXPECT_OK(touched);
      if (touched.value_or(true)) return true;
    }
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, IptablesFaults,
                         ::testing::Combine(::testing::Values("nft", "legacy"), ::testing::Bool()),
                         NameOfWorld);

TEST_P(IptablesFaults, WhatOthersTakeAwayIsToldAndBack) {
  const auto web = [&](const std::vector<std::string>& endpoints) {
    return Row("default/web", {ClusterIp(Vip(), 80)}, endpoints);
  };
  Apply(true, Rows{web({"a"})});
  (void)iptables_->watch()->Drain();
  for (int i = 0; i < 5; ++i) {
    Apply(false, Rows{web({"a", "b"})});
    Apply(false, Rows{web({"a"})});
  }
  EXPECT_FALSE(IsTold(Clock::now() + std::chrono::milliseconds(700)))
      << "our own changes are no news";
  for (const char* damage :
       {" -t nat -F", " -t nat -F KUBE-SERVICES", " -t filter -D OUTPUT 1",
        " -t nat -I KUBE-SERVICES -j RETURN", " -t nat -D PREROUTING 1", " -F FORWARD"}) {
    Command(Program(damage));
    ASSERT_TRUE(IsTold(Clock::now() + std::chrono::seconds(5))) << damage;
    EXPECT_GT(iptables_->Repair().value_or(0), 0u) << damage;
    EXPECT_EQ(Try("client", Vip(), 80).endpoint, "a") << damage;
    EXPECT_EQ(iptables_->Repair().value_or(99), 0u) << damage;
  }
  EXPECT_FALSE(IsTold(Clock::now() + std::chrono::milliseconds(700)))
      << "repairing is our own change";
}

TEST_P(IptablesFaults, WhatOthersHaveForThemselvesIsNoNews) {
  if (Kind() != "nft") return;  // legacy tables tell only that they changed
  Apply(true, Rows{Row("default/web", {ClusterIp(Vip(), 80)}, {"a"})});
  (void)iptables_->watch()->Drain();
  Command(Program(" -t nat -N OTHERS"));
  Command(Program(" -t nat -A OTHERS -j RETURN"));
  Command(Program(" -A INPUT -p tcp --dport 4444 -j DROP"));
  Command("nft add table inet filter");
  EXPECT_FALSE(iptables_->watch()->Drain().value_or(true));
}

// --- kill -9 ---

// The process that is killed: this program again, with only this test. Loads, changes, and ends.
TEST(IptablesDriver, DISABLED_Load) {
  const char* kind = std::getenv("HOLDFAST_DRIVER_KIND");
  if (kind == nullptr) GTEST_SKIP() << "run by the kill tests";
  const auto back_end = NewIptables(kind, std::getenv("HOLDFAST_DRIVER_LOCK"));
  ASSERT_NE(back_end, nullptr);
  model::ServiceChange change;
  change.complete = true;
  change.settings = std::make_shared<model::ServiceSettings>();
  change.rows = Crowd(std::stoul(std::getenv("HOLDFAST_DRIVER_SERVICES")), false);
  ASSERT_OK(back_end->Apply(change));
  change.complete = false;
  const model::ServicePortRowPtr first = change.rows[0];
  for (size_t i = 0; i < 6; ++i) {
    auto row = std::make_shared<model::ServicePortRow>(*first);
    if (i % 2 == 0) row->cluster.pop_back();
    if (i % 3 == 0) row->affinity = std::chrono::seconds(60);
    change.rows = {row};
    ASSERT_OK(back_end->Apply(change));
  }
}

class IptablesKills : public IptablesWorld {
 protected:
  pid_t Start(size_t services, std::vector<std::string> environment = {}) {
    environment.push_back(StrCat("HOLDFAST_DRIVER_SERVICES=", services));
    environment.push_back("HOLDFAST_DRIVER_KIND=" + Kind());
    environment.push_back("HOLDFAST_DRIVER_LOCK=" + LockFile());
    return test_support::StartDriver("IptablesDriver.DISABLED_Load", std::move(environment));
  }

  // A new agent with rows of its own: what it finds is taken over, and a connection that was there
  // goes on.
  void ExpectAWorkingStart(const std::string& when) {
    Restart();
    auto rows = Crowd(50, false);
    rows.push_back(std::make_shared<const model::ServicePortRow>(Web()));
    const auto applied = ApplyAgain(ChangeOf(true, std::move(rows), {}));
    EXPECT_OK(applied);
    EXPECT_TRUE(applied && applied->refused.empty()) << when;
    EXPECT_EQ(back_end_->Repair().value_or(99), 0u) << when;
    EXPECT_EQ(Try("client", Vip(), 80).endpoint, "a") << when;
    EXPECT_TRUE(Talks(kept_)) << when;
  }

  // As ServiceDriver does: tried again while the killed one's program still writes (on a busy
  // machine 10,000 services take it longer than the back end waits for it).
  Result<ServiceApplied> ApplyAgain(const model::ServiceChange& change) {
    Result<ServiceApplied> applied = Unavailable("not tried");
    (void)test_support::Eventually(
        [&] {
          applied = back_end_->Apply(change);
          return applied || applied.error().code() != Code::kUnavailable;
        },
        std::chrono::seconds(120));
    return applied;
  }

  model::ServicePortRow Web() const { return Row("t/web", {ClusterIp(Vip(), 80)}, {"a"}); }
  // A connection through a cluster IP, before anything is killed.
  void KeepAConnection() {
    Apply(true, Rows{Web()});
    kept_ = Hold("client", Vip(), 80);
    ASSERT_TRUE(kept_.second);
  }

  // Programs that begin as late as the file in the way goes, in a directory for $PATH.
  std::string SlowPrograms() const {
    const std::string path = StrCat(directory_, "/iptables-", Kind(), "-restore");
    std::ofstream(path) << "#!/bin/sh\ncd " << directory_
                        << "\necho > begun\nwhile [ -e hold ]; do sleep 0.02; done\n"
                        << "PATH=${PATH#*:}\niptables-" << Kind()
                        << "-restore \"$@\"\necho > done\n";
    ::chmod(path.c_str(), 0755);
    std::ofstream(directory_ + "/hold") << "\n";
    return StrCat("PATH=", directory_, ":", std::getenv("PATH"));
  }

  void WaitForFile(const char* name) {
    const std::string path = StrCat(directory_, "/", name);
    EXPECT_TRUE(test_support::Eventually([&] { return ::access(path.c_str(), F_OK) == 0; }))
        << path;
  }

  std::pair<UniqueFd, UniqueFd> kept_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, IptablesKills,
                         ::testing::Combine(::testing::Values("nft", "legacy"),
                                            ::testing::Values(false)),
                         NameOfWorld);

TEST_P(IptablesKills, EveryPausePointIsFollowedByAWorkingStart) {
  KeepAConnection();
  const std::string directory = "HOLDFAST_PAUSE_DIR=" + directory_;
  int status = 0;
  ::waitpid(Start(200, {directory, "HOLDFAST_PAUSE_AT=?"}), &status, 0);
  EXPECT_EQ(status, 0);
  const std::map<std::string, int> passages = test_support::Passages(directory_);
  ASSERT_EQ(passages.size(), 2u) << "built without pause points?";
  for (const auto& [name, count] : passages) {
    for (const int passage : {1, 2, 3, count}) {
      const std::string at = StrCat(name, ":", passage);
      ASSERT_OK(
          back_end_->Remove());  // as much as possible is to be done by the one that is killed
      const pid_t pid = Start(200, {directory, "HOLDFAST_PAUSE_AT=" + at});
      EXPECT_TRUE(test_support::WaitForStop(pid)) << at;
      test_support::Kill(pid);
      ExpectAWorkingStart(at);
    }
  }
}

// What the killed one's program still does comes before what the next one reads and writes.
TEST_P(IptablesKills, AProgramThatOutlivesItsAgentIsWaitedFor) {
  KeepAConnection();
  const pid_t pid = Start(10, {SlowPrograms()});
  WaitForFile("begun");
  test_support::Kill(pid);
  std::thread later([this] {
    ::poll(nullptr, 0, 300);  // the next agent is in the middle of its start by then
    std::filesystem::remove(directory_ + "/hold");
  });
  ExpectAWorkingStart("a restore that was held up");
  later.join();
  WaitForFile("done");
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
}

TEST_P(IptablesKills, RandomMomentsOfALargeLoadAreFollowedByAWorkingStart) {
  KeepAConnection();
  // iptables-nft takes ten times as long for the same (docs/services.md).
  const size_t services = Kind() == "nft" ? 1000 : 10000;
  test_support::KillAtWork(
      4, {.start = [this, services] { return Start(services); },
          .prepare =
              [this](int kill) {
                if (kill % 2 == 0) EXPECT_OK(back_end_->Remove());
              },
          .expect = [this](const std::string& when) { ExpectAWorkingStart(when); }});
}

}  // namespace
}  // namespace holdfast::netproxy
