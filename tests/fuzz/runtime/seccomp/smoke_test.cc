// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fuzz/runtime/seccomp/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, SeccompProfile) {
  Replay(
      FuzzSeccompProfile,
      {R"({"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"architectures":["SCMP_ARCH_X86_64"],)"
       R"("archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}],"syscalls":[)"
       R"({"names":["read","mkdir"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_ADMIN"]}},)"
       R"({"name":"personality","action":"SCMP_ACT_KILL","excludes":{"caps":["CAP_CHOWN"]},"args":[)"
       R"({"index":0,"value":8,"op":"SCMP_CMP_EQ"},{"index":0,"value":3,"valueTwo":1,"op":"SCMP_CMP_MASKED_EQ"}]}]})"},
      "{}[]:,\"0-e.", 100);
}

}  // namespace
}  // namespace holdfast::fuzz
