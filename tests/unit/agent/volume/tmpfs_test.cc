// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/tmpfs.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

const bool kMountsOfTmpfsTests = test::EnterOwnMountNamespace();

TEST(TmpfsTest, IsKeptFromSwapWhereTheKernelCan) {
  if (!kMountsOfTmpfsTests || ::geteuid() != 0) GTEST_SKIP() << "needs root";
  utsname system{};
  ::uname(&system);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(std::sscanf(system.release, "%d.%d", &major, &minor), 2);
  EXPECT_EQ(KeepsTmpfsFromSwap(), major > 6 || (major == 6 && minor >= 4)) << system.release;

  char place[] = "/tmp/holdfast-tmpfs-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const auto mounted = MountTmpfs("of-a-test", place, MS_NOSUID | MS_NODEV, "mode=0711,size=64k");
  ASSERT_TRUE(mounted) << mounted.error().message();
  std::ifstream mounts("/proc/self/mountinfo");
  std::string found;
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(place) != std::string::npos) found = line;
  }
  EXPECT_NE(found.find("- tmpfs of-a-test "), std::string::npos) << found;
  EXPECT_NE(found.find("size=64k,mode=711"), std::string::npos) << found;
  EXPECT_EQ(found.find("noswap") != std::string::npos, KeepsTmpfsFromSwap()) << found;
  ::umount2(place, MNT_DETACH);
  ::rmdir(place);
  EXPECT_FALSE(MountTmpfs("of-a-test", place, 0, "")) << "there is no such directory any more";
}

}  // namespace
}  // namespace holdfast::agent
