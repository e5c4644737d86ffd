// SPDX-License-Identifier: Apache-2.0
// The tree on the machine's real cgroups, below a parent of the test's own.
#include "runtime/cgroup/tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/bounds.h"
#include "runtime/cgroup/statistics.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using model::QosClass;
using test_support::ReadText;

const PodUid kUid("11111111-2222-3333-4444-555555555555");
const ContainerId kId(std::string(64, 'c'));

class CgroupTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    auto layout = DetectCgroupLayout("/sys/fs/cgroup");
    ASSERT_TRUE(layout) << layout.error().message();
    layout_ = *layout;
    options_.owner = "/var/lib/test";
    options_.parent = StrCat("/hf-test-cgroup-", ::getpid());
    MakeParent();
    auto tree = CgroupTree::Open(layout_, options_);
    ASSERT_TRUE(tree) << tree.error().message();
    tree_ = std::move(*tree);
  }
  void TearDown() override {
    if (layout_.hierarchies.empty()) return;
    auto removed = RemoveChild(tree_->backend(), Top(), options_.parent.substr(1));
    EXPECT_TRUE(removed) << removed.error().message();
    for (const pid_t pid : children_) ::waitpid(pid, nullptr, 0);
  }

  // systemd's part: the parent must be there.
  void MakeParent() { ASSERT_TRUE(MakeChild(Top(), options_.parent.substr(1))); }
  Cgroup Top() {
    Cgroup top{"", {}};
    for (const auto& hierarchy : layout_.hierarchies) {
      top.dirs.push_back(*sys::OpenDir(hierarchy.mount_point));
    }
    return top;
  }

  // A child process inside `cgroup` that runs `body`.
  pid_t Spawn(const Cgroup& cgroup, const std::function<void()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const DirFd& dir : cgroup.dirs) {
        if (!sys::WriteControlAt(dir.get(), "cgroup.procs", "0")) ::_exit(99);
      }
      body();
      ::_exit(0);
    }
    children_.push_back(pid);
    return pid;
  }
  // One that has that much memory when this returns.
  void SpawnHolding(const Cgroup& cgroup, size_t bytes) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    Spawn(cgroup, [&ready, bytes] {
      auto* memory = static_cast<char*>(
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      for (size_t i = 0; i < bytes; i += 4096) const_cast<volatile char*>(memory)[i] = 1;
      if (::write(ready[1], "x", 1) == 1) ::pause();
    });
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  std::string ReadBack(const Cgroup& cgroup, const char* file) {
    for (const DirFd& dir : cgroup.dirs) {
      if (auto text = sys::ReadFileAt(dir.get(), file, 1 << 20)) return *text;
    }
    return "absent";
  }
  // Waits until the cgroup holds `count` processes.
  bool WaitForProcesses(const Cgroup& cgroup, size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      if (Processes(cgroup)->size() == count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool IsV1() const { return layout_.version == CgroupVersion::kV1; }

  CgroupLayout layout_;
  CgroupTreeOptions options_;
  std::unique_ptr<CgroupTree> tree_;
  std::vector<pid_t> children_;
};

TEST_F(CgroupTreeTest, TheRootHasTheNodesLimits) {
  options_.allocatable.cpu_milli = 3000;
  options_.allocatable.memory_bytes = 512ll << 20;
  options_.allocatable.pids = 777;
  auto tree = CgroupTree::Open(layout_, options_);
  ASSERT_TRUE(tree) << tree.error().message();
  const auto limited = (*tree)->top().Limit();
  ASSERT_TRUE(limited) << limited.error().message();
  const bool v1 = layout_.version == CgroupVersion::kV1;
  const auto read = [&](const char* controller, const char* file) {
    const std::string top = v1 ? StrCat("/sys/fs/cgroup/", controller) : "/sys/fs/cgroup";
    std::ifstream in(StrCat(top, options_.parent, "/kubepods/", file));
    std::string value;
    in >> value;
    return value;
  };
  EXPECT_EQ(read("memory", v1 ? "memory.limit_in_bytes" : "memory.max"), "536870912");
  EXPECT_EQ(read("pids", "pids.max"), "777");
  if (v1) {
    EXPECT_EQ(read("cpu", "cpu.shares"), "3072");
  }
  options_.allocatable.memory_bytes = 1ll << 30;
  tree = CgroupTree::Open(layout_, options_);
  ASSERT_TRUE((*tree)->top().Limit());
  EXPECT_EQ(read("memory", v1 ? "memory.limit_in_bytes" : "memory.max"), "1073741824");
}

TEST_F(CgroupTreeTest, LimitsArriveInTheKernel) {
  model::ResourceSpec pod;
  pod.cpu_milli_request = 300;
  pod.pids_limit = 1024;
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBurstable, pod));
  model::ResourceSpec limits;
  limits.cpu_milli_request = 100;
  limits.cpu_milli_limit = 500;
  limits.memory_limit_bytes = 64 << 20;
  limits.swap_limit_bytes = 1 << 20;
  limits.memory_low_bytes = 2 << 20;
  limits.memory_high_bytes = 32 << 20;
  auto made = tree_->MakeContainer(kUid, QosClass::kBurstable, kId, limits, false);
  ASSERT_TRUE(made) << made.error().message();
  if (IsV1()) {
    EXPECT_EQ(ReadBack(*made, "cpu.shares"), "102\n");
    EXPECT_EQ(ReadBack(*made, "cpu.cfs_quota_us"), "50000\n");
    EXPECT_EQ(ReadBack(*made, "memory.limit_in_bytes"), "67108864\n");
    EXPECT_NE(ReadBack(*made, "devices.list").find("c 1:3 rwm"), std::string::npos);
    EXPECT_EQ(ReadBack(*made, "devices.list").find("a *:* rwm"), std::string::npos);
  } else {
    EXPECT_EQ(ReadBack(*made, "cpu.weight"), "17\n");
    EXPECT_EQ(ReadBack(*made, "cpu.max"), "50000 100000\n");
    EXPECT_EQ(ReadBack(*made, "memory.max"), "67108864\n");
    EXPECT_EQ(ReadBack(*made, "memory.swap.max"), "1048576\n");
    EXPECT_EQ(ReadBack(*made, "memory.low"), "2097152\n");
    EXPECT_EQ(ReadBack(*made, "memory.high"), "33554432\n");
    EXPECT_EQ(ReadBack(*made, "memory.oom.group"), "1\n");
  }
  EXPECT_EQ(ReadBack(*tree_->OpenPod(kUid, QosClass::kBurstable), "pids.max"), "1024\n");
  const std::string file = IsV1() ? "/memory" : "";
  EXPECT_EQ(::access(StrCat("/sys/fs/cgroup", file, options_.parent, "/kubepods/burstable/pod",
                            kUid.value, "/", kId.value)
                         .c_str(),
                     F_OK),
            0);
}

TEST_F(CgroupTreeTest, EnsurePodLiftsWhatAFormerCallSet) {
  model::ResourceSpec limits;
  limits.cpu_milli_limit = 500;
  limits.memory_limit_bytes = 64 << 20;
  limits.pids_limit = 5;
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kGuaranteed, limits));
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kGuaranteed, {}));
  auto pod = tree_->OpenPod(kUid, QosClass::kGuaranteed);
  ASSERT_TRUE(pod);
  EXPECT_EQ(ReadBack(*pod, "pids.max"), "max\n");
  if (IsV1()) {
    EXPECT_EQ(ReadBack(*pod, "cpu.cfs_quota_us"), "-1\n");
    EXPECT_GT(ReadBack(*pod, "memory.limit_in_bytes").size(), 15u);
  }
}

// DO-01
TEST_F(CgroupTreeTest, APodHasTheNodesLimitOfProcessesAlsoWhenItIsThereAlready) {
  const auto with = [this](int64_t pids) {
    options_.pod_pids = pids;
    return std::move(*CgroupTree::Open(layout_, options_));
  };
  const auto pids_of_pod = [this] {
    return ReadBack(*tree_->OpenPod(kUid, QosClass::kBurstable), "pids.max");
  };
  ASSERT_TRUE(with(77)->EnsurePod(kUid, QosClass::kBurstable, {}));
  EXPECT_EQ(pids_of_pod(), "77\n");
  ASSERT_TRUE(with(55)->LimitPodPids(kUid, QosClass::kBurstable, {}));
  EXPECT_EQ(pids_of_pod(), "55\n");
  model::ResourceSpec own;
  own.pids_limit = 5;
  ASSERT_TRUE(with(55)->LimitPodPids(kUid, QosClass::kBurstable, own));
  EXPECT_EQ(pids_of_pod(), "5\n");
  ASSERT_TRUE(with(CgroupLimits::kUnlimited)->LimitPodPids(kUid, QosClass::kBurstable, {}));
  EXPECT_EQ(pids_of_pod(), "max\n");
  EXPECT_TRUE(with(55)->LimitPodPids(PodUid("absent"), QosClass::kBurstable, {}));
  EXPECT_EQ(tree_->OpenPod(PodUid("absent"), QosClass::kBurstable).error().code(), Code::kNotFound);
}

TEST_F(CgroupTreeTest, BoundsAreThoseOfTheCgroupsAbove) {
  const auto before = BoundsAbove(layout_, "");
  ASSERT_TRUE(before) << before.error().message();
  CgroupLimits limits;
  limits.memory_bytes = 300 << 20;
  limits.pids = 123;
  ASSERT_TRUE(tree_->backend().Apply(*OpenChild(Top(), options_.parent.substr(1)), limits));
  const CgroupBounds wanted{300 << 20, 123};
  EXPECT_EQ(*BoundsAbove(layout_, options_.parent), wanted);
  EXPECT_EQ(*BoundsAbove(layout_, options_.parent + "/not/made"), wanted);
  EXPECT_EQ(*BoundsAbove(layout_, ""), *before);
}

TEST_F(CgroupTreeTest, RemoveEndsAForkStormAndLeavesNothing) {
  model::ResourceSpec limits;
  limits.pids_limit = 200;
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, limits));
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, false);
  ASSERT_TRUE(made);
  Spawn(*made, [] {
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGCHLD, SIG_IGN);
    for (;;) {
      if (::fork() < 0) ::usleep(100);
    }
  });
  ASSERT_TRUE(WaitForProcesses(*made, 200)) << "the pod's pids limit is reached and holds";
  auto removed = tree_->RemovePod(kUid, QosClass::kBestEffort);
  ASSERT_TRUE(removed) << removed.error().message();
  EXPECT_EQ(tree_->OpenPod(kUid, QosClass::kBestEffort).error().code(), Code::kNotFound);
  EXPECT_TRUE(tree_->RemovePod(kUid, QosClass::kBestEffort)) << "absent is success";
}

TEST_F(CgroupTreeTest, RemoveTakesNestedCgroupsOfTheContainerToo) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, true);
  ASSERT_TRUE(made);
  Cgroup nested = std::move(MakeChild(*made, "own")->cgroup);
  nested = std::move(MakeChild(nested, "deeper")->cgroup);
  Spawn(nested, [] { ::pause(); });
  ASSERT_TRUE(WaitForProcesses(*made, 1));
  ASSERT_TRUE(tree_->RemoveContainer(kUid, QosClass::kBestEffort, kId));
  EXPECT_TRUE(ListChildren(*tree_->OpenPod(kUid, QosClass::kBestEffort))->empty());
}

// Far below what any path or recursion of ours could bound.
TEST_F(CgroupTreeTest, RemoveTakesCgroupsHoweverDeepTheyNest) {
  constexpr int kLevels = 300;
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, true);
  ASSERT_TRUE(made);
  ASSERT_TRUE(MakeChild(*made, "beside"));
  Cgroup nested = std::move(MakeChild(*made, "own")->cgroup);
  for (int i = 0; i < kLevels; ++i) {
    auto deeper = MakeChild(nested, i % 2 == 0 ? "a" : "b");
    ASSERT_TRUE(deeper) << deeper.error().message();
    nested = std::move(deeper->cgroup);
    if (i % 50 == 0) {
      ASSERT_TRUE(MakeChild(nested, "leaf"));
    }
  }
  Spawn(nested, [] { ::pause(); });
  ASSERT_TRUE(WaitForProcesses(*made, 1)) << "found at the bottom";
  auto removed = tree_->RemoveContainer(kUid, QosClass::kBestEffort, kId);
  ASSERT_TRUE(removed) << removed.error().message();
  EXPECT_TRUE(ListChildren(*tree_->OpenPod(kUid, QosClass::kBestEffort))->empty());
}

TEST_F(CgroupTreeTest, OomKillOfAChildIsCounted) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  model::ResourceSpec limits;
  limits.memory_limit_bytes = 16 << 20;
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, limits, false);
  ASSERT_TRUE(made);
  EXPECT_EQ(*tree_->backend().OomKills(*made), 0u);
  const pid_t pid = Spawn(*made, [] {
    constexpr size_t kSize = 64 << 20;
    auto* memory = static_cast<char*>(
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < kSize; i += 4096) const_cast<volatile char*>(memory)[i] = 1;
  });
  children_.clear();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_GE(*tree_->backend().OomKills(*made), 1u);
}

model::ResourceSpec Amounts(int64_t cpu_milli, int64_t memory_bytes) {
  model::ResourceSpec amounts;
  amounts.cpu_milli_request = cpu_milli;
  amounts.cpu_milli_limit = cpu_milli;
  amounts.memory_limit_bytes = memory_bytes;
  return amounts;
}

// On v1 the kernel refuses a quota above the one of the cgroup that it lies in.
TEST_F(CgroupTreeTest, APodAndItsContainersGrowAndShrink) {
  const ContainerId other(std::string(64, 'd'));
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBurstable, Amounts(200, 64 << 20)));
  auto first = tree_->MakeContainer(kUid, QosClass::kBurstable, kId, Amounts(100, 32 << 20), false);
  auto second =
      tree_->MakeContainer(kUid, QosClass::kBurstable, other, Amounts(100, 32 << 20), false);
  ASSERT_TRUE(first && second);
  const Cgroup pod = std::move(*tree_->OpenPod(kUid, QosClass::kBurstable));
  const auto resize = [&](int64_t of_pod, int64_t of_first, int64_t of_second) {
    const auto megabytes = [](int64_t milli) { return Amounts(milli, milli << 20); };
    const auto done = tree_->Resize(kUid, QosClass::kBurstable, megabytes(of_pod),
                                    {{kId, "first", megabytes(of_first)},
                                     {other, "second", megabytes(of_second)},
                                     {ContainerId(std::string(64, 'e')), "gone", {}}});
    ASSERT_TRUE(done) << done.error().message();
    const std::pair<const Cgroup*, int64_t> wanted[] = {
        {&pod, of_pod}, {&*first, of_first}, {&*second, of_second}};
    for (const auto& [cgroup, milli] : wanted) {
      auto now = tree_->backend().Limits(*cgroup);
      ASSERT_TRUE(now) << now.error().message();
      EXPECT_EQ(now->cpu_quota_us, milli * 100) << cgroup->path;
      EXPECT_EQ(now->memory_bytes, milli << 20) << cgroup->path;
      if (IsV1()) {
        EXPECT_EQ(ReadBack(*cgroup, "cpu.shares"), StrCat(milli * 1024 / 1000, "\n"));
        if (cgroup != &pod) {
          const std::string swap = ReadBack(*cgroup, "memory.memsw.limit_in_bytes");
          EXPECT_TRUE(swap == "absent" || swap == StrCat(milli << 20, "\n")) << swap;
        }
      }
    }
  };
  resize(1000, 900, 100);
  if (!IsV1()) {
    model::ResourceSpec kept = Amounts(900, 900 << 20);
    kept.swap_limit_bytes = 4096;
    kept.memory_min_bytes = 8192;
    kept.memory_high_bytes = 16384;
    ASSERT_TRUE(tree_->Resize(kUid, QosClass::kBurstable, Amounts(1000, 1000 << 20),
                              {{kId, "first", kept}}));
    EXPECT_EQ(ReadBack(*first, "memory.min") + ReadBack(*first, "memory.high") +
                  ReadBack(*first, "memory.swap.max"),
              "8192\n16384\n4096\n");
    resize(1000, 900, 100);
    EXPECT_EQ(ReadBack(*first, "memory.min") + ReadBack(*first, "memory.high") +
                  ReadBack(*first, "memory.swap.max"),
              "0\nmax\n0\n")
        << "what is not asked for any more is lifted";
  }
  resize(1000, 100, 900);  // one gives to the other
  resize(200, 100, 100);
  resize(2000, 200, 1800);
}

TEST_F(CgroupTreeTest, AMemoryLimitBelowWhatIsUsedIsRefusedBeforeAnythingIsWritten) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBurstable, Amounts(500, 64 << 20)));
  auto made = tree_->MakeContainer(kUid, QosClass::kBurstable, kId, Amounts(500, 64 << 20), false);
  ASSERT_TRUE(made);
  SpawnHolding(*made, 16 << 20);
  const auto refused = tree_->Resize(kUid, QosClass::kBurstable, Amounts(100, 8 << 20),
                                     {{kId, "app", Amounts(100, 8 << 20)}});
  ASSERT_FALSE(refused);
  const std::string& why = refused.error().message();
  EXPECT_TRUE(why.starts_with(
      "cannot decrease memory limits: [attempting to set pod memory limit (8388608) below current "
      "usage ("))
      << why;
  EXPECT_NE(why.find("), attempting to set container \"app\" memory limit (8388608) below "),
            std::string::npos)
      << why;
  EXPECT_EQ(tree_->backend().Limits(*made)->cpu_quota_us, 50000) << "nothing else either";
  EXPECT_TRUE(tree_->Resize(kUid, QosClass::kBurstable, Amounts(100, 48 << 20),
                            {{kId, "app", Amounts(100, 48 << 20)}}));
  EXPECT_EQ(tree_->backend().Limits(*made)->memory_bytes, 48 << 20);
  EXPECT_EQ(Processes(*made)->size(), 1u) << "it lives";
}

TEST_F(CgroupTreeTest, OnlyStandardDevicesCanBeOpened) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, false);
  ASSERT_TRUE(made);
  const std::string node = StrCat("/var/tmp/holdfast-node-", ::getpid());
  const pid_t pid = Spawn(*made, [&node] {
    if (::open("/dev/null", O_RDWR) < 0) ::_exit(1);
    if (::mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 11)) != 0) ::_exit(2);  // kmsg
    if (::open(node.c_str(), O_RDONLY) >= 0 || errno != EPERM) ::_exit(3);
    ::_exit(42);
  });
  children_.clear();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ::unlink(node.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST_F(CgroupTreeTest, UsageShowsWhatAProcessUses) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  auto made = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, false);
  ASSERT_TRUE(made);
  SpawnHolding(*made, 8 << 20);
  auto usage = tree_->backend().Usage(*made);
  ASSERT_TRUE(usage) << usage.error().message();
  EXPECT_GE(usage->working_set_bytes, 8u << 20);
  EXPECT_GT(usage->cpu_nanos, 0u);
  EXPECT_EQ(usage->pids, 1u);
}

// On v1 nobody counts; the guests of tests/vm have v2, and a disk.
TEST_F(CgroupTreeTest, WhatAContainerWritesToADiskIsCounted) {
  if (layout_.version != CgroupVersion::kV2)
    GTEST_SKIP() << "kernel lacks the controllers of cgroup v2";
  const std::string name = StrCat("/var/tmp/hf-test-written-", ::getpid());
  const UniqueFd file(::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  ::unlink(name.c_str());
  struct stat st{};
  ASSERT_EQ(::fstat(file.get(), &st), 0);
  if (major(st.st_dev) == 0) GTEST_SKIP() << "kernel lacks a disk for /var/tmp";
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  auto container = tree_->MakeContainer(kUid, QosClass::kBestEffort, kId, {}, false);
  ASSERT_TRUE(container) << container.error().message();
  constexpr size_t kBytes = 1 << 20;
  const pid_t writer = Spawn(*container, [&] {
    const std::string data(kBytes, 'x');
    if (::write(file.get(), data.data(), data.size()) != kBytes) ::_exit(1);
    ::_exit(::fsync(file.get()) == 0 ? 0 : 2);
  });
  int status = -1;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  children_.clear();
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto counted = ReadStatistics(layout_, container->path);
  ASSERT_TRUE(counted) << counted.error().message();
  ASSERT_TRUE(counted->io.disks);
  EXPECT_GE(counted->io.disks->written_bytes, kBytes);
}

TEST_F(CgroupTreeTest, AnotherOwnersTreeIsRefusedAndUntouched) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBestEffort, {}));
  CgroupTreeOptions other = options_;
  other.owner = "/var/lib/other";
  auto refused = CgroupTree::Open(layout_, other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_TRUE(tree_->OpenPod(kUid, QosClass::kBestEffort));
  EXPECT_TRUE(CgroupTree::Open(layout_, options_)) << "our own is opened again";
}

TEST_F(CgroupTreeTest, ListFindsPodsAndContainersOfEveryClass) {
  for (const QosClass qos : {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort}) {
    ASSERT_TRUE(tree_->EnsurePod(PodUid(StrCat("pod-", static_cast<int>(qos))), qos, {}));
  }
  ASSERT_TRUE(tree_->MakeContainer(PodUid("pod-1"), QosClass::kBurstable, kId, {}, false));
  auto found = tree_->List();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[1].uid, PodUid("pod-1"));
  EXPECT_EQ((*found)[1].containers, std::vector<ContainerId>{kId});
}

TEST_F(CgroupTreeTest, TheClassesHaveWhatTheirPodsAskFor) {
  ASSERT_TRUE(tree_->top().SetRequests({1500, 3 << 20, 5 << 20}));
  const std::string v1 = IsV1() ? "/cpu" : "";
  const auto read = [&](const std::string& file) {
    std::ifstream in(StrCat("/sys/fs/cgroup", v1, options_.parent, "/kubepods/", file));
    std::string value;
    in >> value;
    return value;
  };
  EXPECT_EQ(read(IsV1() ? "burstable/cpu.shares" : "burstable/cpu.weight"),
            IsV1() ? "1536" : "138");
  if (IsV1()) return;
  EXPECT_EQ(read("burstable/memory.low"), StrCat(3 << 20));
  EXPECT_EQ(read("memory.min"), StrCat(8 << 20)) << "it covers both";
  ASSERT_TRUE(tree_->top().SetRequests({1500, 0, 0}));
  EXPECT_EQ(read("burstable/memory.low") + read("memory.min"), "00");
}

// What systemd does with all that it delegated when a person stops that unit, while we have it open.
TEST_F(CgroupTreeTest, ATreeThatWasTakenAwayIsMadeAnewWithItsLimits) {
  options_.allocatable.pids = 777;
  auto opened = CgroupTree::Open(layout_, options_);
  ASSERT_TRUE(opened) << opened.error().message();
  CgroupTree& tree = **opened;
  ASSERT_TRUE(tree.top().SetRequests({3000, 0, 0}));
  ASSERT_TRUE(tree.EnsurePod(kUid, QosClass::kBurstable, {}));
  ASSERT_TRUE(RemoveChild(tree.backend(), Top(), options_.parent.substr(1)));
  // Nobody's: removing it, listing and what is left of a pod that goes are no failures.
  EXPECT_EQ(tree.List()->size(), 0u);
  EXPECT_TRUE(tree.RemovePod(kUid, QosClass::kBurstable));
  const auto requested = tree.top().SetRequests({1500, 0, 0});
  EXPECT_TRUE(requested) << requested.error().message();
  EXPECT_EQ(tree.MakeContainer(kUid, QosClass::kBurstable, kId, {}, false).error().code(),
            Code::kNotFound);
  const auto ensured = tree.EnsurePod(kUid, QosClass::kBurstable, {});
  ASSERT_TRUE(ensured) << ensured.error().message();
  EXPECT_TRUE(tree.MakeContainer(kUid, QosClass::kBurstable, kId, {}, false));
  const auto read = [&](const char* controller, const char* file) {
    return ReadText(
        StrCat("/sys/fs/cgroup", IsV1() ? controller : "", options_.parent, "/kubepods/", file));
  };
  EXPECT_EQ(read("/pids", "pids.max"), "777\n");
  EXPECT_EQ(IsV1() ? read("/cpu", "burstable/cpu.shares") : read("", "burstable/cpu.weight"),
            IsV1() ? "1536\n" : "138\n");
  CgroupTreeOptions other = options_;
  other.owner = "/var/lib/other";
  EXPECT_EQ(CgroupTree::Open(layout_, other).error().code(), Code::kConflict) << "it is marked";
}

}  // namespace
}  // namespace holdfast::runtime
