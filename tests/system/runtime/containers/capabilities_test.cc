// SPDX-License-Identifier: Apache-2.0
// What containers are given is the keeper's to give: the agent's own set is smaller under systemd.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

std::string BoundingSetIn(const std::string& status) {
  const size_t at = status.find("CapBnd:\t");
  return at == std::string::npos ? status : status.substr(at + 8, 16);
}

// The bounding set of a container that `runtime` starts.
std::string BoundingSetOf(const RuntimeNode& node, ContainerRuntime& runtime, const std::string& id,
                          bool privileged) {
  EXPECT_TRUE(runtime.EnsureSandbox(node.Sandbox("p1")));
  model::ContainerSpec spec =
      node.Container("p1", id, {"/bin/sh", "-c", "/bin/busybox grep CapBnd /proc/self/status"});
  spec.security.privileged = privileged;
  const auto started = runtime.Start(spec);
  EXPECT_TRUE(started) << started.error().error.message();
  std::string log;
  EXPECT_TRUE(Eventually([&] {
    log = ReadText(node.LogPath(spec));
    return log.ends_with('\n');
  }));
  return BoundingSetIn(log);
}

TEST(CapabilitiesTest, TheAgentsBoundingSetDoesNotReachContainers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::prctl(PR_CAPBSET_READ, CAP_SYS_BOOT), 1);
  ASSERT_EQ(::prctl(PR_CAPBSET_READ, CAP_AUDIT_WRITE), 1);
  const RuntimeNode node;
  node.Open();  // starts the keeper, which stays
  std::string privileged;
  std::string ordinary;
  // A bounding set is a thread's own.
  std::thread([&] {
    ASSERT_EQ(::prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT), 0);
    ASSERT_EQ(::prctl(PR_CAPBSET_DROP, CAP_AUDIT_WRITE), 0);
    const auto runtime = node.Open();
    privileged = BoundingSetOf(node, *runtime, "a1", true);
    ordinary = BoundingSetOf(node, *runtime, "a2", false);
  }).join();
  EXPECT_EQ(privileged, BoundingSetIn(ReadText("/proc/self/status")));
  EXPECT_EQ(ordinary, "00000000a80425fb");
}

}  // namespace
}  // namespace holdfast::runtime
