// SPDX-License-Identifier: Apache-2.0
// Both back ends against directories with ordinary files in the place of the kernel's.
#include "runtime/cgroup/backend.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

struct File {
  const char* name;
  const char* content;
};

class BackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-cgroup-XXXXXX";
    root_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // A cgroup directory with these interface files; files are truncated on write like the kernel's.
  void Fill(const std::string& dir, std::initializer_list<File> files) {
    std::filesystem::create_directories(root_ + "/" + dir);
    for (const File& file : files)
      std::ofstream(root_ + "/" + dir + "/" + file.name) << file.content;
  }
  std::string Read(const std::string& path) {
    std::ifstream in(root_ + "/" + path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  Cgroup Open(std::initializer_list<const char*> dirs) {
    Cgroup cgroup{"/test", {}};
    for (const char* dir : dirs) cgroup.dirs.push_back(*sys::OpenDir(root_ + "/" + dir));
    return cgroup;
  }
  CgroupLayout V1Layout() {
    return {CgroupVersion::kV1,
            {{root_ + "/memory", {Controller::kMemory}},
             {root_ + "/cpu", {Controller::kCpu, Controller::kCpuAcct}},
             {root_ + "/pids", {Controller::kPids}},
             {root_ + "/devices", {Controller::kDevices}}}};
  }
  CgroupLayout V2Layout() {
    return {CgroupVersion::kV2,
            {{root_, {Controller::kCpu, Controller::kMemory, Controller::kPids}}}};
  }

  std::string root_;
};

CgroupLimits AllLimits() {
  CgroupLimits limits;
  limits.cpu_shares = 1024;
  limits.cpu_quota_us = 50000;
  limits.memory_bytes = 64 << 20;
  limits.pids = 10;
  return limits;
}

TEST_F(BackendTest, V2WritesEveryLimit) {
  Fill("c", {{"cpu.weight", ""},
             {"cpu.max", ""},
             {"memory.max", ""},
             {"memory.swap.max", ""},
             {"memory.min", ""},
             {"memory.low", ""},
             {"memory.high", ""},
             {"memory.oom.group", ""},
             {"pids.max", ""}});
  CgroupLimits limits = AllLimits();
  limits.swap_bytes = 4096;
  limits.memory_min = 1;
  limits.memory_low = 2;
  limits.memory_high = 3;
  limits.oom_group = true;
  auto applied = MakeCgroupBackend(V2Layout())->Apply(Open({"c"}), limits);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(Read("c/cpu.weight"), "100");
  EXPECT_EQ(Read("c/cpu.max"), "50000 100000");
  EXPECT_EQ(Read("c/memory.max"), "67108864");
  EXPECT_EQ(Read("c/memory.swap.max"), "4096");
  EXPECT_EQ(Read("c/memory.min"), "1");
  EXPECT_EQ(Read("c/memory.low"), "2");
  EXPECT_EQ(Read("c/memory.high"), "3");
  EXPECT_EQ(Read("c/memory.oom.group"), "1");
  EXPECT_EQ(Read("c/pids.max"), "10");
}

TEST_F(BackendTest, V2LiftsLimitsWithMaxAndLeavesAbsentOnesAlone) {
  Fill("c", {{"cpu.max", ""}, {"memory.max", ""}, {"memory.high", ""}, {"pids.max", "7"}});
  CgroupLimits limits;
  limits.memory_high = CgroupLimits::kUnlimited;
  limits.cpu_quota_us = CgroupLimits::kUnlimited;
  limits.memory_bytes = CgroupLimits::kUnlimited;
  limits.swap_bytes = 0;  // memory.swap.max is not there: no swap accounting, no error
  ASSERT_TRUE(MakeCgroupBackend(V2Layout())->Apply(Open({"c"}), limits));
  EXPECT_EQ(Read("c/cpu.max"), "max 100000");
  EXPECT_EQ(Read("c/memory.max"), "max");
  EXPECT_EQ(Read("c/memory.high"), "max");
  EXPECT_EQ(Read("c/pids.max"), "7");
}

TEST_F(BackendTest, BothReadTheirLimitsBack) {
  Fill("c", {{"cpu.max", "25000 50000\n"}, {"memory.max", "67108864\n"}});
  auto limits = MakeCgroupBackend(V2Layout())->Limits(Open({"c"}));
  ASSERT_TRUE(limits) << limits.error().message();
  EXPECT_EQ(limits->cpu_quota_us, 50000) << "per 100 ms";
  EXPECT_EQ(limits->memory_bytes, 64 << 20);
  Fill("c", {{"cpu.max", "max 100000\n"}, {"memory.max", "max\n"}});
  limits = MakeCgroupBackend(V2Layout())->Limits(Open({"c"}));
  EXPECT_EQ(limits->cpu_quota_us, CgroupLimits::kUnlimited);
  EXPECT_EQ(limits->memory_bytes, CgroupLimits::kUnlimited);
  Fill("c", {{"cpu.max", "junk\n"}});
  EXPECT_FALSE(MakeCgroupBackend(V2Layout())->Limits(Open({"c"})));

  Fill("memory/c", {{"memory.limit_in_bytes", "9223372036854771712\n"}});
  Fill("cpu/c", {{"cpu.cfs_quota_us", "-1\n"}, {"cpu.cfs_period_us", "100000\n"}});
  const auto v1 = MakeCgroupBackend(V1Layout());
  limits = v1->Limits(Open({"memory/c", "cpu/c"}));
  ASSERT_TRUE(limits) << limits.error().message();
  EXPECT_EQ(limits->cpu_quota_us, CgroupLimits::kUnlimited);
  EXPECT_EQ(limits->memory_bytes, CgroupLimits::kUnlimited);
  Fill("memory/c", {{"memory.limit_in_bytes", "1048576\n"}});
  Fill("cpu/c", {{"cpu.cfs_quota_us", "7000\n"}});
  limits = v1->Limits(Open({"memory/c", "cpu/c"}));
  EXPECT_EQ(limits->cpu_quota_us, 7000);
  EXPECT_EQ(limits->memory_bytes, 1 << 20);
}

TEST_F(BackendTest, BothLimitHugePagesOfTheSizesThatThereAre) {
  CgroupLimits limits;
  limits.huge_pages = {{64 << 10, 1}, {2 << 20, 8 << 20}, {1 << 30, 0}};
  Fill("c", {{"hugetlb.2MB.max", ""},
             {"hugetlb.2MB.rsvd.max", ""},
             {"hugetlb.1GB.max", ""},
             {"hugetlb.64KB.max", ""},
             {"hugetlb.xMB.max", ""},
             {"hugetlb.2MB.current", "0"}});
  const auto v2 = MakeCgroupBackend(V2Layout());
  EXPECT_EQ(*v2->HugePageSizes(Open({"c"})), (std::vector<uint64_t>{64 << 10, 2 << 20, 1 << 30}));
  auto applied = v2->Apply(Open({"c"}), limits);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(Read("c/hugetlb.2MB.max"), "8388608");
  EXPECT_EQ(Read("c/hugetlb.2MB.rsvd.max"), "8388608");
  EXPECT_EQ(Read("c/hugetlb.1GB.max"), "0");
  EXPECT_EQ(Read("c/hugetlb.64KB.max"), "1");

  CgroupLayout layout = V1Layout();
  layout.hierarchies.push_back({root_ + "/hugetlb", {Controller::kHugetlb}});
  Fill("hugetlb/c", {{"hugetlb.2MB.limit_in_bytes", ""}, {"hugetlb.1GB.limit_in_bytes", ""}});
  for (const char* dir : {"memory/c", "cpu/c", "pids/c", "devices/c"}) Fill(dir, {});
  const auto v1 = MakeCgroupBackend(layout);
  const Cgroup cgroup = Open({"memory/c", "cpu/c", "pids/c", "devices/c", "hugetlb/c"});
  EXPECT_EQ(*v1->HugePageSizes(cgroup), (std::vector<uint64_t>{2 << 20, 1 << 30}));
  ASSERT_TRUE(v1->Apply(cgroup, limits));
  EXPECT_EQ(Read("hugetlb/c/hugetlb.2MB.limit_in_bytes"), "8388608");
  EXPECT_EQ(Read("hugetlb/c/hugetlb.1GB.limit_in_bytes"), "0");
  EXPECT_TRUE(MakeCgroupBackend(V1Layout())->HugePageSizes(cgroup)->empty());
}

TEST_F(BackendTest, V2EnablesOnlyWhatIsMissing) {
  Fill("c",
       {{"cgroup.subtree_control", "cpu io"}, {"cgroup.controllers", "cpuset cpu io memory pids"}});
  ASSERT_TRUE(MakeCgroupBackend(V2Layout())->EnableForChildren(Open({"c"})));
  EXPECT_TRUE(Read("c/cgroup.subtree_control").starts_with("+memory +pids"));
  Fill("d", {{"cgroup.subtree_control", "cpu memory pids"},
             {"cgroup.controllers", "cpu hugetlb io memory pids"}});
  ASSERT_TRUE(MakeCgroupBackend(V2Layout())->EnableForChildren(Open({"d"})));
  EXPECT_TRUE(Read("d/cgroup.subtree_control").starts_with("+hugetlb +io"))
      << "where they are there";
}

TEST_F(BackendTest, V2NamesTheControllerThatIsNotThere) {
  Fill("c", {{"cgroup.subtree_control", ""}, {"cgroup.controllers", "cpu memory"}});
  auto enabled = MakeCgroupBackend(V2Layout())->EnableForChildren(Open({"c"}));
  ASSERT_FALSE(enabled);
  EXPECT_EQ(enabled.error().code(), Code::kUnsupported);
  EXPECT_NE(enabled.error().message().find("controller pids is not enabled for cgroup /test"),
            std::string::npos);
}

TEST_F(BackendTest, V2ReadsUsageAndOomKills) {
  Fill("c", {{"cpu.stat", "usage_usec 1500\nuser_usec 900\n"},
             {"memory.current", "1000\n"},
             {"memory.stat", "anon 300\nfile 700\ninactive_file 400\n"},
             {"memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 1\n"},
             {"pids.current", "3\n"}});
  auto backend = MakeCgroupBackend(V2Layout());
  auto usage = backend->Usage(Open({"c"}));
  ASSERT_TRUE(usage) << usage.error().message();
  EXPECT_EQ(usage->cpu_nanos, 1500000u);
  EXPECT_EQ(usage->working_set_bytes, 600u);
  EXPECT_EQ(usage->rss_bytes, 300u);
  EXPECT_EQ(usage->pids, 3u);
  EXPECT_EQ(*backend->OomKills(Open({"c"})), 2u);
}

TEST_F(BackendTest, V1WritesEachLimitIntoItsHierarchy) {
  Fill("memory", {{"memory.limit_in_bytes", ""}, {"memory.memsw.limit_in_bytes", ""}});
  Fill("cpu", {{"cpu.shares", ""}, {"cpu.cfs_period_us", ""}, {"cpu.cfs_quota_us", ""}});
  Fill("pids", {{"pids.max", ""}});
  Fill("devices", {{"devices.deny", ""}, {"devices.allow", ""}});
  CgroupLimits limits = AllLimits();
  limits.swap_bytes = 0;
  limits.standard_devices = true;
  limits.devices = {{'b', 7, 5, true, true, true}, {'b', 8, 0, true, false, true}};
  auto applied =
      MakeCgroupBackend(V1Layout())->Apply(Open({"memory", "cpu", "pids", "devices"}), limits);
  ASSERT_TRUE(applied) << applied.error().message();
  EXPECT_EQ(Read("memory/memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(Read("memory/memory.memsw.limit_in_bytes"), "67108864");
  EXPECT_EQ(Read("cpu/cpu.shares"), "1024");
  EXPECT_EQ(Read("cpu/cpu.cfs_quota_us"), "50000");
  EXPECT_EQ(Read("pids/pids.max"), "10");
  EXPECT_EQ(Read("devices/devices.deny"), "a");
  EXPECT_TRUE(Read("devices/devices.allow").starts_with("c *:* mb *:* mc 1:3 rwm"));
  EXPECT_TRUE(Read("devices/devices.allow").ends_with("b 7:5 rwmb 8:0 rm"));
}

TEST_F(BackendTest, ErrorsNameTheCgroupAndTheFile) {
  Fill("c", {});
  auto applied = MakeCgroupBackend(V2Layout())->Apply(Open({"c"}), AllLimits());
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().message(),
            "limit cgroup /test: open cpu.weight: no such file or directory");
}

TEST_F(BackendTest, ChildrenAreMadeInEveryHierarchyAndListedOnce) {
  Fill("a", {});
  Fill("b/only_in_b", {});
  const Cgroup parent = Open({"a", "b"});
  auto made = MakeChild(parent, "x");
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->fresh);
  EXPECT_FALSE(MakeChild(parent, "x")->fresh);
  EXPECT_EQ(*ListChildren(parent), (std::vector<std::string>{"only_in_b", "x"}));
  ASSERT_TRUE(OpenChild(parent, "only_in_b"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/a/only_in_b")) << "the missing one is made again";
  EXPECT_EQ(OpenChild(parent, "absent").error().code(), Code::kNotFound);
}

TEST_F(BackendTest, LayoutOfADirectoryWithoutControllersNamesThem) {
  auto layout = DetectCgroupLayout(root_);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code(), Code::kUnsupported);
  EXPECT_NE(layout.error().message().find("memory, cpu, pids, devices"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::runtime
