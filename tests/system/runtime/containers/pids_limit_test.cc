// SPDX-License-Identifier: Apache-2.0
// A pod that has all processes that it may have (DO-01).
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "holdfast/base/strings.h"
#include "runtime/cgroup/layout.h"
#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

constexpr int kLimit = 20;

class PidsLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    node_ = std::make_unique<RuntimeNode>();
    RuntimeOptions options = node_->Options();
    options.pod_pids = kLimit;
    auto runtime = MakeContainerRuntime(std::move(options));
    ASSERT_TRUE(runtime) << runtime.error().message();
    runtime_ = std::move(*runtime);
  }
  void TearDown() override {
    runtime_.reset();
    node_.reset();
  }

  std::string PodFile(const char* name) const {
    const CgroupLayout layout = *DetectCgroupLayout("/sys/fs/cgroup");
    for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
      if (!hierarchy.Has(Controller::kPids)) continue;
      return ReadText(StrCat(hierarchy.mount_point, node_->cgroup_parent(),
                             "/kubepods/besteffort/podp1/", name));
    }
    return "";
  }

  std::unique_ptr<RuntimeNode> node_;
  std::unique_ptr<ContainerRuntime> runtime_;
};

// In a user namespace the container's process is cloned inside the pod's cgroup, with v2 every one.
TEST_F(PidsLimitTest, AStartThatFailsForItSaysSo) {
  model::SandboxSpec sandbox = node_->Sandbox("p1");
  sandbox.host_users = false;
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  if (!ensured && ensured.error().code() == Code::kUnsupported)
    GTEST_SKIP() << "kernel lacks user namespaces";
  ASSERT_TRUE(ensured) << ensured.error().message();
  EXPECT_EQ(PodFile("pids.max"), StrCat(kLimit, "\n"));
  // The shell and its children are as many as there may be; it becomes the last of them.
  const std::string script =
      StrCat("for i in $(seq ", kLimit - 1, "); do sleep 1000 & done; exec sleep 1000");
  const auto full = runtime_->Start(node_->Container("p1", "a1", {"/bin/sh", "-c", script}));
  ASSERT_TRUE(full) << full.error().error.message();
  const std::string all = StrCat(kLimit, "\n");
  ASSERT_TRUE(Eventually([&] { return PodFile("pids.current") == all; }));
  const auto more = runtime_->Start(node_->Container("p1", "b1", {"/bin/true"}));
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().error.message().find("the pod has all processes that it may have (20)"),
            std::string::npos)
      << more.error().error.message();
}

}  // namespace
}  // namespace holdfast::runtime
