// SPDX-License-Identifier: Apache-2.0
// Which programs are used, and what the others' lock does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "holdfast/base/unique_fd.h"
#include "netproxy/services/iptables/command.h"
#include "netproxy/services/iptables/host.h"

namespace holdfast::netproxy::iptables {
namespace {

using std::chrono::milliseconds;

class ProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    char pattern[] = "/tmp/holdfast-iptables-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    directory_ = pattern;
    lock_ = directory_ + "/lock";
    ::setenv("XTABLES_LOCKFILE", lock_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XTABLES_LOCKFILE");
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  static void Run(const std::vector<std::string>& argv) {
    auto output = RunCommand(argv, "", std::chrono::seconds(20));
    ASSERT_TRUE(output.has_value()) << output.error().message();
    ASSERT_EQ(output->status, 0) << output->err;
  }
  static std::string Chosen() {
    auto programs = ChoosePrograms();
    return programs ? programs->name : programs.error().message();
  }
  static std::unique_ptr<XtablesHost> Legacy() {
    for (Programs& programs : FindPrograms()) {
      if (programs.name == "legacy") return NewProcessHost(std::move(programs));
    }
    ADD_FAILURE() << "iptables-legacy is not installed";
    return nullptr;
  }
  UniqueFd TakeLock() const {
    UniqueFd lock(::open(lock_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(::flock(lock.get(), LOCK_EX), 0);
    return lock;
  }

  std::string directory_;
  std::string lock_;
};

constexpr const char* kText = "*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n";

TEST_F(ProgramsTest, TheKindWithMoreRulesIsUsed) {
  EXPECT_EQ(Chosen(), "nft");
  Run({"iptables-legacy", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"});
  EXPECT_EQ(Chosen(), "legacy");
  Run({"iptables-nft", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"});
  EXPECT_EQ(Chosen(), "nft") << "as many";
}

TEST_F(ProgramsTest, KubeletsHintCountsMoreThanRules) {
  Run({"iptables-nft", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"});
  Run({"iptables-legacy", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"});
  EXPECT_EQ(Chosen(), "legacy");
  Run({"ip6tables-nft", "-t", "mangle", "-N", "KUBE-KUBELET-CANARY"});
  EXPECT_EQ(Chosen(), "nft");
}

TEST_F(ProgramsTest, TheLockIsWaitedFor) {
  const auto host = Legacy();
  ASSERT_NE(host, nullptr);
  UniqueFd lock = TakeLock();
  const auto start = std::chrono::steady_clock::now();
  std::thread other([&] {
    ::poll(nullptr, 0, 500);
    lock.Reset();
  });
  const auto restored = host->Restore(false, kText);
  other.join();
  EXPECT_TRUE(restored.has_value()) << restored.error().message();
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(500));
}

TEST_F(ProgramsTest, ALockThatIsNeverGivenUpIsNoRefusal) {
  const auto host = Legacy();
  ASSERT_NE(host, nullptr);
  const UniqueFd lock = TakeLock();
  const auto restored = host->Restore(false, kText);
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code(), Code::kUnavailable) << restored.error().message();
}

TEST_F(ProgramsTest, ARefusalSaysWhy) {
  const auto host = Legacy();
  ASSERT_NE(host, nullptr);
  const auto restored = host->Restore(false, "*filter\n-A INPUT -d fd00::1 -j DROP\nCOMMIT\n");
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().code(), Code::kInvalidArgument);
  EXPECT_NE(restored.error().message().find("fd00::1"), std::string::npos)
      << restored.error().message();
}

TEST_F(ProgramsTest, CommandsEndAtTheirLimit) {
  const auto output = RunCommand({"sleep", "600"}, "", milliseconds(100));
  ASSERT_FALSE(output.has_value());
  EXPECT_EQ(output.error().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(RunCommand({"no-such-program"}, "", milliseconds(100)).error().code(), Code::kNotFound);
  const auto echoed = RunCommand({"cat"}, std::string(1 << 20, 'x'), std::chrono::seconds(20));
  ASSERT_TRUE(echoed.has_value());
  EXPECT_EQ(echoed->out.size(), size_t{1} << 20);
}

}  // namespace
}  // namespace holdfast::netproxy::iptables
