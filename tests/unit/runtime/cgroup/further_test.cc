// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/further.h"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

// A hybrid machine: freezer twice, blkio read-only, perf_event somewhere else, net_cls nowhere, and
// a part of devices that somebody bound elsewhere.
constexpr char kMounts[] =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "32 31 0:29 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /opt/freezer rw - cgroup none rw,freezer\n"
    "35 31 0:31 / /sys/fs/cgroup/freezer rw - cgroup none rw,freezer\n"
    "36 31 0:32 / /sys/fs/cgroup/blkio ro - cgroup none rw,blkio\n"
    "37 31 0:33 / /opt/perf\\040event rw - cgroup none rw,perf_event\n"
    "38 31 0:34 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "39 31 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
    "40 31 0:36 /part /opt/hugetlb rw - cgroup none rw,hugetlb\n";

constexpr char kExisting[] =
    "12:hugetlb:/\n"
    "11:net_cls,net_prio:/\n"
    "9:name=systemd:/\n"
    "7:blkio:/\n"
    "6:freezer:/\n"
    "5:perf_event:/\n"
    "4:memory:/process\n"
    "2:cpu,cpuacct:/\n"
    "0::/\n";

TEST(ParseCgroupMountsTest, TakesCgroupsOnlyAndUndoesEscapes) {
  const auto mounts = ParseCgroupMounts(kMounts);
  ASSERT_EQ(mounts.size(), 9u);
  EXPECT_EQ(
      mounts[1],
      (CgroupMount{"0:30", "/", "/sys/fs/cgroup/cpu,cpuacct", false, {"rw", "cpu", "cpuacct"}}));
  EXPECT_EQ(mounts[5].mount_point, "/opt/perf event");
  EXPECT_TRUE(mounts[7].unified);
  EXPECT_TRUE(ParseCgroupMounts("nonsense\n1 2 - cgroup\n\n").empty());
}

TEST(FindFurtherTest, JoinsEveryOtherHierarchyAndNamesWhatItCannot) {
  const auto found =
      FindFurther(kMounts, kExisting, "/sys/fs/cgroup", {"0:29", "0:30"},
                  [](const CgroupMount& mount) -> std::string {
                    return mount.mount_point.ends_with("blkio") ? "is read-only" : "";
                  });
  EXPECT_EQ(found.joined, (std::vector<CgroupHierarchy>{{"/sys/fs/cgroup/systemd", {}, false},
                                                        {"/sys/fs/cgroup/freezer", {}, false},
                                                        {"/opt/perf event", {}, false},
                                                        {"/sys/fs/cgroup/unified", {}, true}}));
  EXPECT_EQ(found.left_out, (std::vector<std::string>{"hugetlb: it is not mounted",
                                                      "net_cls,net_prio: it is not mounted",
                                                      "blkio: is read-only"}));
}

TEST(FindFurtherTest, PureV2HasNone) {
  const auto found =
      FindFurther("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n",
                  "/sys/fs/cgroup", {"0:26"}, [](const CgroupMount&) { return std::string(); });
  EXPECT_TRUE(found.joined.empty());
  EXPECT_TRUE(found.left_out.empty());
}

// As a VPN's net_cls on a machine with v2.
TEST(FindFurtherTest, AV1HierarchyBesideV2IsJoined) {
  const auto found = FindFurther(
      "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
      "31 1 0:40 / /opt/net_cls rw - cgroup none rw,net_cls\n",
      "3:net_cls:/\n0::/\n", "/sys/fs/cgroup", {"0:26"},
      [](const CgroupMount&) { return std::string(); });
  EXPECT_EQ(found.joined, (std::vector<CgroupHierarchy>{{"/opt/net_cls", {}, false}}));
}

}  // namespace
}  // namespace holdfast::runtime
