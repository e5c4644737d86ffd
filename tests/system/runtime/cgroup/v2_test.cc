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

#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend.h"
#include "runtime/cgroup/backend_internal.h"
#include "tests/support/loop_device.h"

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
  auto attached = AttachDeviceFilter(cgroup_.dirs[0].get(), {});
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

TEST_F(CgroupV2Test, DeviceFilterThatIsThereMayBeAttachedAgain) {
  for (int i = 0; i < 2; ++i) {
    auto attached = AttachDeviceFilter(cgroup_.dirs[0].get(), {});
    EXPECT_TRUE(attached) << attached.error().message();
  }
}

TEST_F(CgroupV2Test, DeviceFilterAllowsWhatAContainerHasBeside) {
  const auto own = test_support::LoopDevice::Make();
  const auto read = test_support::LoopDevice::Make();
  const auto other = test_support::LoopDevice::Make();
  if (!own || !read || !other) GTEST_SKIP() << "kernel lacks loop devices for this test";
  const auto rule = [](const test_support::LoopDevice& device, bool write) {
    return DeviceRule{'b',
                      static_cast<int32_t>(device.major()),
                      static_cast<int32_t>(device.minor()),
                      true,
                      write,
                      true};
  };
  auto attached = AttachDeviceFilter(cgroup_.dirs[0].get(), {rule(*own, true), rule(*read, false)});
  ASSERT_TRUE(attached) << attached.error().message();
  const int status = Run([&] {
    if (::open(own->path().c_str(), O_RDWR) < 0) ::_exit(1);
    if (::open(read->path().c_str(), O_RDONLY) < 0) ::_exit(2);
    if (::open(read->path().c_str(), O_RDWR) >= 0 || errno != EPERM) ::_exit(3);
    if (::open(other->path().c_str(), O_RDONLY) >= 0 || errno != EPERM) ::_exit(4);
    if (::open("/dev/null", O_RDWR) < 0) ::_exit(5);
    ::_exit(42);
  });
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

// The one controller that a hybrid machine may have here.
TEST_F(CgroupV2Test, HugePagesAreLimitedInTheKernel) {
  const int top = top_.dirs[0].get();
  const std::string on = *sys::ReadFileAt(top, "cgroup.subtree_control", 4096);
  const bool was_on = on.find("hugetlb") != std::string::npos;
  if (!sys::WriteControlAt(top, "cgroup.subtree_control", "+hugetlb")) {
    GTEST_SKIP() << "hugetlb is a v1 hierarchy's";
  }
  Rollback as_it_was;
  as_it_was.Add([&] {
    if (!was_on) (void)sys::WriteControlAt(top, "cgroup.subtree_control", "-hugetlb");
  });
  auto sizes = backend_->HugePageSizes(cgroup_);
  ASSERT_TRUE(sizes) << sizes.error().message();
  if (sizes->empty()) GTEST_SKIP() << "this machine has no huge pages";
  CgroupLimits limits;
  for (const uint64_t size : *sizes) limits.huge_pages.push_back({size, 3 * size});
  const auto applied = backend_->Apply(cgroup_, limits);
  ASSERT_TRUE(applied) << applied.error().message();
  size_t read = 0;
  const auto files = sys::ListDirAt(cgroup_.dirs[0].get(), ".");
  ASSERT_TRUE(files);
  for (const std::string& file : *files) {
    if (!file.starts_with("hugetlb.") || !file.ends_with(".max")) continue;
    EXPECT_NE(*sys::ReadFileAt(cgroup_.dirs[0].get(), file, 64), "max\n") << file;
    ++read;
  }
  EXPECT_EQ(read, 2 * sizes->size()) << "what is used and what is reserved";
}

}  // namespace
}  // namespace holdfast::runtime
