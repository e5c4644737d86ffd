// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <string>

#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/probe.h"

namespace holdfast::sys {
namespace {

void AwaitEnd(const PidFd& pidfd) {
  pollfd event{pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 10000), 1);
}

TEST(ProcessTest, PeekLeavesTheZombieAndReapTakesIt) {
  auto child = Clone(0);
  ASSERT_TRUE(child.has_value()) << child.error().message();
  if (child->pid == 0) ::_exit(42);
  AwaitEnd(child->pidfd);
  for (int i = 0; i < 2; ++i) {
    auto peeked = PeekExit(child->pidfd.get());
    ASSERT_TRUE(peeked && *peeked);
    EXPECT_EQ((*peeked)->ShellCode(), 42);
  }
  auto reaped = ReapExit(child->pidfd.get());
  ASSERT_TRUE(reaped && *reaped);
  EXPECT_EQ((*reaped)->code, 42);
  auto again = PeekExit(child->pidfd.get());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), Code::kNotFound);
}

TEST(ProcessTest, ASignalShowsAsTheShellShowsIt) {
  auto child = Clone(0);
  ASSERT_TRUE(child.has_value());
  if (child->pid == 0) {
    for (;;) ::pause();
  }
  auto running = PeekExit(child->pidfd.get());
  ASSERT_TRUE(running.has_value());
  EXPECT_FALSE(running->has_value());
  ASSERT_TRUE(SendSignal(child->pidfd.get(), SIGKILL).has_value());
  AwaitEnd(child->pidfd);
  auto reaped = ReapExit(child->pidfd.get());
  ASSERT_TRUE(reaped && *reaped);
  EXPECT_EQ((*reaped)->ShellCode(), 137);
  EXPECT_EQ(SendSignal(child->pidfd.get(), SIGTERM).error().code(), Code::kNotFound);
}

TEST(ProcessTest, AnEndingIsSeenFromItsBeginningOnAndAfterTheReaping) {
  auto child = Clone(CLONE_NEWPID);
  ASSERT_TRUE(child.has_value()) << child.error().message();
  if (child->pid == 0) {
    for (;;) ::pause();
  }
  const int init = child->pidfd.get();
  EXPECT_FALSE(IsEnding(init));
  // A child of ours in its namespace: until we have reaped that, the init does not come to its end.
  const UniqueFd pids(
      ::open(("/proc/" + std::to_string(child->pid) + "/ns/pid").c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd own(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(pids.get(), CLONE_NEWPID), 0);
  auto other = Clone(0);
  if (other && other->pid == 0) {
    for (;;) ::pause();
  }
  ASSERT_EQ(::setns(own.get(), CLONE_NEWPID), 0);
  ASSERT_TRUE(other.has_value()) << other.error().message();
  ASSERT_TRUE(SendSignal(init, SIGKILL).has_value());
  AwaitEnd(other->pidfd);  // killed by the kernel
  EXPECT_TRUE(IsEnding(init));
  pollfd ended{init, POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 0), 0) << "its pidfd says nothing yet";
  ASSERT_TRUE(ReapExit(other->pidfd.get()));
  AwaitEnd(child->pidfd);
  EXPECT_TRUE(IsEnding(init));
  ASSERT_TRUE(ReapExit(init));
  EXPECT_TRUE(IsEnding(init));
}

TEST(ProcessTest, StartTicksReadsPastAHostileCommandName) {
  char old[16];
  ::prctl(PR_GET_NAME, old);
  ::prctl(PR_SET_NAME, "a) R 1 (b");
  auto proc = OpenDir("/proc");
  ASSERT_TRUE(proc.has_value());
  auto ticks = StartTicks(proc->get(), ::getpid());
  ::prctl(PR_SET_NAME, old);
  auto plain = StartTicks(proc->get(), ::getpid());
  ASSERT_TRUE(ticks && plain);
  EXPECT_EQ(*ticks, *plain);
  EXPECT_GT(*ticks, 0u);
}

// What a child that was started with niceness 5 has after ResetScheduling(); -1: that failed.
int NicenessAfterReset(bool in_user_namespace) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpriority(PRIO_PROCESS, 0, 5);
    if (in_user_namespace && ::unshare(CLONE_NEWUSER) != 0) ::_exit(77);
    PreferShortSlices();
    ::_exit(ResetScheduling() ? ::getpriority(PRIO_PROCESS, 0) : 255);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  return code == 255 ? -1 : code;
}

// Pods with hostUsers: false once did not start below a keeper with a niceness of its own.
TEST(ProcessTest, ANicenessThatMayNotBeLoweredStays) {
  EXPECT_EQ(NicenessAfterReset(false), 0);
  const int kept = NicenessAfterReset(true);
  if (kept == 77) GTEST_SKIP() << "kernel lacks user namespaces";
  EXPECT_EQ(kept, 5);
}

TEST(ProbeTest, FactsAgreeWithTheKernelsVersionAndLeaveNoMount) {
  auto before = ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20);
  auto facts = ProbeHost();
  ASSERT_TRUE(facts.has_value()) << facts.error().message();
  auto after = ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", 1 << 20);
  EXPECT_EQ(*before, *after);
  EXPECT_GE(facts->last_capability, 40u);
  auto release = ReadFileAt(AT_FDCWD, "/proc/sys/kernel/osrelease", 256);
  ASSERT_TRUE(release.has_value());
  int major = 0;
  int minor = 0;
  ASSERT_EQ(::sscanf(release->c_str(), "%d.%d", &major, &minor), 2);
  const int version = major * 1000 + minor;
  EXPECT_EQ(facts->overlay_lower_add, version >= 6007);
  EXPECT_EQ(facts->overlay_lower_fd, version >= 6013);
  EXPECT_EQ(facts->open_tree_detached, version >= 6015);
  EXPECT_EQ(facts->pidfd_info_exit, version >= 6015);
}

TEST(ProbeTest, AKernelWithoutLandlock) {
  const pid_t child = ::fork();
  if (child == 0) {
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(filter), filter};
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
    ::_exit(LandlockAbi() == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

}  // namespace
}  // namespace holdfast::sys
