// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/runtime/kernel_text/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

using namespace std::string_literals;  // NOLINT: texts with NUL

TEST(FuzzSmokeTest, KernelText) {
  const std::string mounts =
      "35 24 0:30 / /sys/fs/cgroup/cpu\\040x rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
      "36 24 0:31 /user.slice /mnt rw shared:3 master:1 - cgroup2 cgroup2 rw,nsdelegate\n";
  Replay(
      FuzzKernelText,
      {"\0"s + mounts + "\0"s + "12:cpu,cpuacct:/\n3:name=systemd:/a\n0::/user.slice\n",
       "\1" + mounts, "\2holdfast-0123.scope", "\2kubepods-burstable-pod1_2.slice",
       "\3some avg10=0.00 avg60=0.10 avg300=0.00 total=12\nfull avg10=0 avg60=0 avg300=0 total=1\n",
       "\4Inter-|   Receive\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\nMemTotal: 12 kB\n"
       "cpu  1 2 3 4 5 6 7 8 9 10\n"},
      " \n:,-=\\0/\0"s);
}

}  // namespace
}  // namespace holdfast::fuzz
