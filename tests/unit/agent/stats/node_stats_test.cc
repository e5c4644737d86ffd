// SPDX-License-Identifier: Apache-2.0
// Statistics of cgroups and of the machine, from files as kernels of both kinds write them.
#include "agent/stats/node_stats.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/fake_pod_view.h"

namespace holdfast::agent {
namespace {

class StatisticsTest : public ::testing::Test {
 protected:
  StatisticsTest() {
    std::string name = "/tmp/holdfast-stats-XXXXXX";
    top_ = ::mkdtemp(name.data());
  }
  ~StatisticsTest() override { std::filesystem::remove_all(top_); }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(top_ + path).parent_path());
    std::ofstream(top_ + path) << text;
  }
  std::string top_;
};

TEST_F(StatisticsTest, OfCgroupV2) {
  Write("/a/cpu.stat",
        "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 4\nnr_throttled "
        "2\nthrottled_usec 9\n");
  Write("/a/memory.current", "1000\n");
  Write("/a/memory.stat",
        "anon 300\nfile 600\ninactive_file 200\nfile_mapped 50\npgfault 7\npgmajfault 1\n");
  Write("/a/memory.max", "max\n");
  Write("/a/memory.swap.max", "0\n");
  Write("/a/memory.events", "low 0\nmax 3\noom 1\noom_kill 2\n");
  Write("/a/io.stat",
        "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=5 wbytes=0 rios=1 "
        "wios=0\n");
  Write("/a/cpu.pressure",
        "some avg10=1.50 avg60=0.10 avg300=0.00 total=42\nfull avg10=0.00 avg60=0.00 avg300=0.00 "
        "total=7\n");
  Write("/a/cpu.max", "50000 100000\n");
  Write("/a/pids.current", "5\n");
  Write("/a/pids.max", "100\n");
  Write("/a/cgroup.procs", "11\n12\n");
  runtime::CgroupLayout layout;
  layout.hierarchies = {
      {top_,
       {runtime::Controller::kCpu, runtime::Controller::kMemory, runtime::Controller::kPids}}};
  const auto read = runtime::ReadStatistics(layout, "/a");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->cpu.nanos, 1'500'000u);
  EXPECT_EQ(read->cpu.throttled_periods, 2u);
  EXPECT_EQ(read->cpu.quota_micros, 50'000u);
  EXPECT_EQ(read->cpu.period_micros, 100'000u);
  EXPECT_EQ(read->memory.usage, 1000u);
  EXPECT_EQ(read->memory.working_set, 800u);
  EXPECT_EQ(read->memory.limit, UINT64_MAX);
  EXPECT_EQ(read->memory.swap_limit, 0u);
  EXPECT_EQ(read->memory.oom_kills, 2u);
  ASSERT_TRUE(read->io.disks);
  EXPECT_EQ(read->io.disks->read_bytes, 15u);
  EXPECT_EQ(read->io.disks->writes, 2u);
  std::filesystem::remove(top_ + "/a/io.stat");
  EXPECT_FALSE(runtime::ReadStatistics(layout, "/a")->io.disks) << "not counted is not 0";
  ASSERT_TRUE(read->cpu.pressure);
  EXPECT_EQ(read->cpu.pressure->some.total_micros, 42u);
  EXPECT_EQ(read->cpu.pressure->full.total_micros, 7u);
  EXPECT_DOUBLE_EQ(read->cpu.pressure->some.avg10, 1.5);
  EXPECT_FALSE(read->memory.pressure);
  EXPECT_EQ(read->threads, 5u);
  EXPECT_EQ(read->processes, 2u);
  const auto gone = runtime::ReadStatistics(layout, "/b");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), Code::kNotFound);
}

TEST_F(StatisticsTest, OfCgroupV1) {
  Write("/cpu/a/cpuacct.usage", "1500000\n");
  Write("/cpu/a/cpu.cfs_quota_us", "-1\n");
  Write("/memory/a/memory.usage_in_bytes", "1000\n");
  Write("/memory/a/memory.stat",
        "cache 1\ntotal_cache 600\ntotal_rss 300\ntotal_inactive_file 1200\ntotal_pgfault 7\n");
  Write("/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/memory/a/memory.failcnt", "4\n");
  Write("/pids/a/pids.current", "5\n");
  runtime::CgroupLayout layout;
  layout.version = runtime::CgroupVersion::kV1;
  layout.hierarchies = {{top_ + "/cpu", {runtime::Controller::kCpu, runtime::Controller::kCpuAcct}},
                        {top_ + "/memory", {runtime::Controller::kMemory}},
                        {top_ + "/pids", {runtime::Controller::kPids}}};
  EXPECT_FALSE(runtime::ReadStatistics(layout, "/a")->memory.pressure);
  // A hybrid's tree beside the controllers.
  layout.hierarchies.push_back({top_ + "/freezer", {}});
  layout.hierarchies.push_back({top_ + "/unified", {}, true});
  EXPECT_FALSE(runtime::ReadStatistics(layout, "/a")->memory.pressure) << "there may be none";
  Write("/freezer/a/cpu.pressure", "some avg10=9 avg60=9 avg300=9 total=9\n");
  Write("/unified/a/memory.pressure",
        "some avg10=0.50 avg60=0.00 avg300=0.00 total=8\nfull avg10=0.00 avg60=0.00 avg300=0.00 "
        "total=3\n");
  const auto read = runtime::ReadStatistics(layout, "/a");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->cpu.nanos, 1'500'000u);
  EXPECT_FALSE(read->cpu.pressure);
  ASSERT_TRUE(read->memory.pressure);
  EXPECT_EQ(read->memory.pressure->some.total_micros, 8u);
  EXPECT_EQ(read->memory.pressure->full.total_micros, 3u);
  EXPECT_FALSE(read->cpu.quota_micros);
  EXPECT_EQ(read->memory.cache, 600u);
  EXPECT_EQ(read->memory.working_set, 0u);  // never below
  EXPECT_EQ(read->memory.limit, UINT64_MAX);
  EXPECT_EQ(read->memory.limit_hits, 4u);
  EXPECT_EQ(read->threads, 5u);
}

TEST(MachineStatsTest, ReadsWhatTheKernelWrites) {
  const auto interfaces = ParseInterfaces(
      "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed "
      "multicast|bytes\n"
      "    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0\n bad: "
      "x\n");
  ASSERT_EQ(interfaces.size(), 1u);
  EXPECT_EQ(interfaces[0].name, "eth0");
  EXPECT_EQ(interfaces[0].rx_dropped, 4u);
  EXPECT_EQ(interfaces[0].tx_bytes, 200u);
  EXPECT_EQ(interfaces[0].tx_errors, 6u);
  EXPECT_EQ(MeminfoBytes("MemTotal:   10 kB\nMemFree:    4 kB\n", "MemFree:"), 4096u);
  EXPECT_EQ(BusyNanos("cpu  1 2 3 100 50 4 5 6 0 0\ncpu0 1\n", 100), 21u * 10'000'000u);
  EXPECT_FALSE(runtime::ParsePressure("nothing"));
  EXPECT_FALSE(ReadFsUsage("/does/not/exist"));
  EXPECT_GT(ReadFsUsage("/")->capacity, 0u);
}

TEST_F(StatisticsTest, TreesAreCountedWithoutLeavingThem) {
  Write("/tree/a/file", std::string(100'000, 'x'));
  Write("/outside", std::string(1'000'000, 'x'));
  std::filesystem::create_symlink("../outside", top_ + "/tree/link");
  const auto size = MeasureTree(top_ + "/tree", 1000);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->inodes, 4u);
  EXPECT_GE(size->bytes, 100'000u);
  EXPECT_LT(size->bytes, 200'000u);
  EXPECT_TRUE(size->whole);
  EXPECT_FALSE(MeasureTree(top_ + "/tree", 3)->whole);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(MeasureTree(top_ + "/tree", 1000, stop.get_token()));
  EXPECT_FALSE(MeasureTree(top_ + "/none", 3));
}

// Asking waits for no counting, and what nobody asks for any more is not counted.
TEST_F(StatisticsTest, TreesAreCountedApartFromAsking) {
  Write("/tree/file", "x");
  TreeSizes sizes{
      {.lasts = std::chrono::milliseconds(0), .rest = 0, .kept = std::chrono::milliseconds(200)}};
  EXPECT_FALSE(sizes.Get(top_ + "/tree"));
  sizes.Measure();
  EXPECT_EQ(sizes.Get(top_ + "/tree")->inodes, 2u);
  Write("/tree/file2", "x");
  sizes.Measure();
  EXPECT_EQ(sizes.Get(top_ + "/tree")->inodes, 3u);
  sizes.Measure();
  sizes.Measure();
  EXPECT_TRUE(sizes.Get(top_ + "/tree")) << "who asks need not ask before each count";
  std::this_thread::sleep_for(std::chrono::milliseconds(201));
  sizes.Measure();
  EXPECT_FALSE(sizes.Get(top_ + "/tree"));
}

class TestClock : public Clock {
 public:
  BootTime Boot() const override { return {}; }
  WallTime Wall() const override { return {now}; }
  std::chrono::nanoseconds now = std::chrono::hours(1);
};

// One reading serves all who ask within its time; rates come with the next one.
TEST_F(StatisticsTest, AreReadWhenTheyAreOld) {
  FakePodView pods;
  TestClock clock;
  model::Instance instance;
  NodeStats stats({instance, pods, clock});
  const auto first = stats.Sample();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_FALSE((*first)->node.nano_cores);
  EXPECT_GT((*first)->node.used.memory.usage, 0u);
  clock.now += std::chrono::seconds(1);
  EXPECT_EQ(*stats.Sample(), *first);
  clock.now += std::chrono::seconds(10);
  const auto second = stats.Sample();
  EXPECT_NE(*second, *first);
  EXPECT_TRUE((*second)->node.nano_cores);
  clock.now -= std::chrono::hours(1);  // set back
  EXPECT_NE(*stats.Sample(), *second);
}

}  // namespace
}  // namespace holdfast::agent
