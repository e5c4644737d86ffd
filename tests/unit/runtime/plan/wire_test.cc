// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast::runtime {
namespace {

using namespace model;

ProcessPlan FullProcess() {
  ProcessPlan p;
  p.argv = {"nginx", "-g", "daemon off;"};
  p.env = {"PATH=/bin", "EMPTY="};
  p.cwd = "/srv";
  p.uid = 101;
  p.gid = 102;
  p.groups = {7, 8, 4294967294};
  p.capabilities = {1, 2, 3, 4, 1ull << 40};
  p.no_new_privs = true;
  p.seccomp = {{{0x20, 0, 0, 4}, {0x06, 1, 255, 0x7fff0000}}, true, false};
  p.app_armor = "a profile";
  p.selinux = "system_u:system_r:container_t:s0:c1,c2";
  p.rlimits = {{7, 10, 20}};
  p.oom_score_adj = -997;
  p.umask = 077;
  p.stdio = {0, 1, kNoFd, true, 50, 132};
  return p;
}

LaunchPlan FullLaunch() {
  LaunchPlan p;
  p.namespaces = {0, 1, 2, kNoFd, 3, false, true, true};
  p.cgroup = {4, {5, 6}};
  p.root = {{"/l/1", "/l/2"}, "/s", true};
  MountPlan bind;
  bind.source = 7;
  bind.destination = "/data";
  bind.recursive_read_only = true;
  bind.propagation = MountPlan::Propagation::kShared;
  MountPlan tmpfs;
  tmpfs.kind = MountPlan::Kind::kDev;
  tmpfs.destination = "/dev";
  tmpfs.size_bytes = 65536;
  tmpfs.mode = 01777;
  tmpfs.no_suid = true;
  p.mounts = {bind, tmpfs};
  p.devices = {{"null", false, 1, 3, 0666, 0, 0},
               {"sda", true, 8, 0, 0660, 0, 6},
               {"/data/disk", true, 8, 16, 0660, 0, 6}};
  p.masked_paths = {"/proc/kcore"};
  p.read_only_paths = {"/proc/sys"};
  p.selinux = "system_u:object_r:container_file_t:s0:c1,c2";
  p.process = FullProcess();
  return p;
}

constexpr size_t kFds = 8;

TEST(WireTest, EveryKindOfPlanSurvivesTheRoundTrip) {
  ExecPlan exec{3, true, false, {kNoFd, {1}}, FullProcess()};
  SandboxPlan sandbox;
  sandbox.uts = true;
  sandbox.ipc = false;
  sandbox.uid_map = {{0, 65536, 65536}};
  sandbox.gid_map = {{0, 131072, 65536}};
  sandbox.hostname = "web-0";
  sandbox.sysctls = {{"net/core/somaxconn", "1024"}};
  sandbox.shm_size_bytes = 64 << 20;
  sandbox.init_binary = 2;
  sandbox.init_selinux = "u:r:t";
  for (const Plan& plan : {Plan(FullLaunch()), Plan(exec), Plan(sandbox)}) {
    auto read = ParsePlan(SerializePlan(plan), kFds);
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(*read, plan);
  }
}

TEST(WireTest, RefusesEveryTruncationAndEveryAddition) {
  const std::string bytes = SerializePlan(FullLaunch());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePlan(std::string_view(bytes).substr(0, size), kFds).has_value()) << size;
  }
  EXPECT_FALSE(ParsePlan(bytes + '\0', kFds).has_value());
}

TEST(WireTest, RefusesADescriptorThatDidNotCome) {
  const std::string bytes = SerializePlan(FullLaunch());
  EXPECT_TRUE(ParsePlan(bytes, kFds).has_value());
  auto refused = ParsePlan(bytes, kFds - 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("descriptor index"), std::string::npos);
}

TEST(WireTest, FlippedBytesNeverCrashAndNeverAllocateMuch) {
  const std::string good = SerializePlan(FullLaunch());
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int flips = 1 + round % 4; flips > 0; --flips) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    auto plan = ParsePlan(bad, kFds);
    if (!plan) {
      EXPECT_FALSE(plan.error().message().empty());
    }
  }
}

struct BadCase {
  const char* name;
  void (*spoil)(LaunchPlan&);
};

TEST(WireTest, RefusesValuesThatNoStepWasWrittenFor) {
  const BadCase cases[] = {
      {"argv", [](LaunchPlan& p) { p.process.argv.clear(); }},
      {"argv NUL", [](LaunchPlan& p) { p.process.argv[0] = std::string("a\0b", 3); }},
      {"uid", [](LaunchPlan& p) { p.process.uid = 0xffffffff; }},
      {"group", [](LaunchPlan& p) { p.process.groups.push_back(0xffffffff); }},
      {"cwd", [](LaunchPlan& p) { p.process.cwd = "srv"; }},
      {"rlimit", [](LaunchPlan& p) { p.process.rlimits[0].resource = 16; }},
      {"rlimit order", [](LaunchPlan& p) { p.process.rlimits[0].soft = 21; }},
      {"oom", [](LaunchPlan& p) { p.process.oom_score_adj = 1001; }},
      {"layers", [](LaunchPlan& p) { p.root.layers.clear(); }},
      {"too many layers", [](LaunchPlan& p) { p.root.layers.assign(501, "/l"); }},
      {"relative layer", [](LaunchPlan& p) { p.root.layers[0] = "l"; }},
      {"bind without source", [](LaunchPlan& p) { p.mounts[0].source = kNoFd; }},
      {"tmpfs with source", [](LaunchPlan& p) { p.mounts[1].source = 1; }},
      {"destination", [](LaunchPlan& p) { p.mounts[0].destination = ""; }},
      {"device", [](LaunchPlan& p) { p.devices[0].path = "null/"; }},
      {"device at the root", [](LaunchPlan& p) { p.devices[0].path = "/"; }},
      {"seccomp", [](LaunchPlan& p) { p.process.seccomp.program.resize(4097); }},
      {"AppArmor", [](LaunchPlan& p) { p.process.app_armor = "a\nb"; }},
      {"long AppArmor", [](LaunchPlan& p) { p.process.app_armor.assign(4091, 'a'); }},
      {"SELinux", [](LaunchPlan& p) { p.process.selinux = "u:r:t\n"; }},
      {"SELinux quote", [](LaunchPlan& p) { p.selinux = "u:r:t\",upperdir=/"; }},
      {"long SELinux", [](LaunchPlan& p) { p.selinux.assign(256, 'a'); }},
      {"pid", [](LaunchPlan& p) { p.namespaces.new_pid = true; }},
      {"kind", [](LaunchPlan& p) { p.mounts[0].kind = static_cast<MountPlan::Kind>(99); }},
  };
  for (const BadCase& c : cases) {
    LaunchPlan plan = FullLaunch();
    c.spoil(plan);
    EXPECT_FALSE(ParsePlan(SerializePlan(plan), kFds).has_value()) << c.name;
  }
}

TEST(WireTest, InAUserNamespaceDevicesAreThoseOfTheHostsDev) {
  LaunchPlan plan = FullLaunch();
  plan.namespaces.user = 3;
  plan.root.owner = 65536;
  plan.host_devices = 4;
  EXPECT_FALSE(ParsePlan(SerializePlan(plan), kFds)) << "/data/disk cannot be made there";
  plan.devices.pop_back();
  EXPECT_TRUE(ParsePlan(SerializePlan(plan), kFds));
}

}  // namespace
}  // namespace holdfast::runtime
