// SPDX-License-Identifier: Apache-2.0
// The cgroup directories that go to the launcher with a plan.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/cgroup/tree.h"
#include "runtime/containers/parts.h"
#include "tests/support/containers/runtime_node.h"

namespace holdfast::runtime {
namespace {

using model::QosClass;

const PodUid kUid("p1");

using Identity = std::pair<dev_t, ino_t>;

Identity Of(const struct stat& st) { return {st.st_dev, st.st_ino}; }

class PlanCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    layout_ = *DetectCgroupLayout("/sys/fs/cgroup");
    CgroupTreeOptions options;
    options.owner = node_.Options().instance.root_dir;
    options.parent = node_.cgroup_parent();
    auto tree = CgroupTree::Open(layout_, options);
    ASSERT_TRUE(tree) << tree.error().message();
    tree_ = std::move(*tree);
  }

  test_support::RuntimeNode node_;
  CgroupLayout layout_;
  std::unique_ptr<CgroupTree> tree_;
};

// RT-02: whatever else goes wrong, a path through one of them ends in our own tree.
TEST_F(PlanCgroupTest, NoDescriptorLeadsOutOfTheTree) {
  ASSERT_TRUE(tree_->EnsurePod(kUid, QosClass::kBurstable, {}));
  auto made = tree_->MakeContainer(kUid, QosClass::kBurstable, ContainerId(std::string(64, 'c')),
                                   {}, false);
  ASSERT_TRUE(made) << made.error().message();
  PodDescriptors pod;
  std::vector<UniqueFd> owned;
  ASSERT_TRUE(AddCgroup(layout_, *made, *made, pod, owned));
  std::vector<int> descriptors;
  if (pod.cgroup_unified >= 0) descriptors.push_back(pod.cgroup_unified);
  for (const CgroupDirectory& directory : pod.cgroup_v1) descriptors.push_back(directory.fd);
  ASSERT_EQ(descriptors.size(), layout_.hierarchies.size());

  std::set<Identity> roots;
  for (const CgroupHierarchy& hierarchy : layout_.hierarchies) {
    const std::string path = StrCat(hierarchy.mount_point, node_.cgroup_parent(), "/kubepods");
    struct stat st{};
    ASSERT_EQ(::stat(path.c_str(), &st), 0) << path;
    roots.insert(Of(st));
  }
  std::string up;
  for (int i = 0; i < 20; ++i) up += "../";
  std::set<Identity> ends;
  for (const int fd : descriptors) {
    struct stat st{};
    ASSERT_EQ(::fstatat(fd, up.c_str(), &st, 0), 0) << fd;
    ends.insert(Of(st));
    EXPECT_NE(::fstatat(fd, (up + "etc/passwd").c_str(), &st, 0), 0) << "the node's root";
    EXPECT_NE(::fstatat(fd, (up + "release_agent").c_str(), &st, 0), 0) << "a hierarchy's root";
  }
  EXPECT_EQ(ends, roots);
}

}  // namespace
}  // namespace holdfast::runtime
