// SPDX-License-Identifier: Apache-2.0
// The parts of the v2 back end that need no controller, on whatever cgroup2 mount there is (a
// hybrid machine has one beside its v1 hierarchies): cgroup.kill and the device filter.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend.h"
#include "runtime/cgroup/backend_internal.h"

namespace holdfast::runtime {
namespace {

class CgroupV2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      struct statfs st{};
      if (::statfs(mount, &st) == 0 && st.f_type == CGROUP2_SUPER_MAGIC) {
        top_.dirs.push_back(*sys::OpenDir(mount));
        break;
      }
    }
    if (top_.dirs.empty()) GTEST_SKIP() << "no cgroup2 mount";
    backend_ = MakeCgroupBackend({CgroupVersion::kV2, {{"", {}}}});
    auto made = MakeChild(top_, name_);
    ASSERT_TRUE(made) << made.error().message();
    cgroup_ = std::move(made->cgroup);
  }
  void TearDown() override {
    if (top_.dirs.empty()) return;
    auto removed = RemoveChild(*backend_, top_, name_);
    EXPECT_TRUE(removed) << removed.error().message();
  }
  // Runs `body` in the cgroup; the wait status.
  int Run(const std::function<void()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (!sys::WriteControlAt(cgroup_.dirs[0].get(), "cgroup.procs", "0")) ::_exit(99);
      body();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return status;
  }

  const std::string name_ = StrCat("hf-test-v2-", ::getpid());
  Cgroup top_;
  Cgroup cgroup_;
  std::unique_ptr<CgroupBackend> backend_;
};

TEST_F(CgroupV2Test, KillAllEndsEveryProcess) {
  const int status = Run([this] {
    if (::fork() == 0) ::pause();
    (void)backend_->KillAll(cgroup_);  // it kills its caller as well
    ::pause();
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(CgroupV2Test, DeviceFilterAllowsOnlyStandardDevices) {
  auto attached = AttachDeviceFilter(cgroup_.dirs[0].get());
  ASSERT_TRUE(attached) << attached.error().message();
  const std::string node = StrCat("/var/tmp/holdfast-v2-node-", ::getpid());
  const int status = Run([&node] {
    if (::open("/dev/null", O_RDWR) < 0) ::_exit(1);
    if (::open("/dev/urandom", O_RDONLY) < 0) ::_exit(2);
    if (::mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 11)) != 0) ::_exit(3);  // kmsg
    if (::open(node.c_str(), O_RDONLY) >= 0 || errno != EPERM) ::_exit(4);
    ::_exit(42);
  });
  ::unlink(node.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

}  // namespace
}  // namespace holdfast::runtime
