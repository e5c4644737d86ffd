// SPDX-License-Identifier: Apache-2.0
// The pure parts of plan compilation, by tables.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/gather/sources.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/environment.h"
#include "runtime/plan/filesystem.h"
#include "runtime/plan/limits.h"
#include "runtime/plan/sandbox.h"

namespace holdfast::runtime {
namespace {

using Kind = model::MountPlan::Kind;

constexpr uint64_t Bit(int capability) { return 1ull << capability; }

sys::HostFacts Facts() {
  sys::HostFacts facts;
  facts.capabilities = (1ull << 41) - 1;
  facts.max_open_files = 20000;
  return facts;
}

TEST(CapabilitiesTest, AddAndDropAsKubernetesHasThem) {
  const uint64_t all = Facts().capabilities;
  const uint64_t standard = DefaultCapabilities();
  EXPECT_EQ(standard, 0xa80425fbu);
  struct Row {
    std::vector<std::string> add, drop;
    uint64_t expected;
  };
  const Row rows[] = {
      {{}, {}, standard},
      {{"NET_ADMIN"}, {}, standard | Bit(CAP_NET_ADMIN)},
      {{"cap_net_admin"}, {}, standard | Bit(CAP_NET_ADMIN)},
      {{}, {"ALL"}, 0},
      {{}, {"all"}, 0},
      {{"NET_BIND_SERVICE"}, {"ALL"}, Bit(CAP_NET_BIND_SERVICE)},
      {{"ALL"}, {}, all},
      {{"ALL"}, {"SYS_ADMIN"}, all & ~Bit(CAP_SYS_ADMIN)},
      {{"ALL"}, {"ALL"}, 0},
      {{"KILL"}, {"KILL"}, standard & ~Bit(CAP_KILL)},
  };
  for (const Row& row : rows) {
    model::SecuritySpec security;
    security.add_capabilities = row.add;
    security.drop_capabilities = row.drop;
    std::vector<std::string> warnings;
    const auto set = CompileCapabilities(security, Facts(), warnings);
    ASSERT_TRUE(set.has_value());
    EXPECT_EQ(*set, row.expected);
    EXPECT_TRUE(warnings.empty());
  }
  model::SecuritySpec unknown;
  unknown.add_capabilities = {"FLY"};
  std::vector<std::string> warnings;
  EXPECT_FALSE(CompileCapabilities(unknown, Facts(), warnings).has_value());
}

TEST(CapabilitiesTest, WhatTheHostLacksIsLeftOutAndSaidWhenAskedForByName) {
  sys::HostFacts facts = Facts();
  facts.capabilities &= ~Bit(CAP_SYS_RESOURCE);
  std::vector<std::string> warnings;
  model::SecuritySpec security;
  security.privileged = true;
  EXPECT_EQ(*CompileCapabilities(security, facts, warnings), facts.capabilities);
  EXPECT_TRUE(warnings.empty());
  security.privileged = false;
  security.add_capabilities = {"SYS_RESOURCE"};
  EXPECT_EQ(*CompileCapabilities(security, facts, warnings), DefaultCapabilities());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "capability CAP_SYS_RESOURCE: not available on this host");
}

TEST(CapabilitiesTest, NamesAndNumbersAgree) {
  for (int number = 0; number <= CAP_LAST_CAP; ++number) {
    EXPECT_EQ(CapabilityNumber(CapabilityName(number)), number);
  }
  EXPECT_EQ(CapabilityNumber("SYS_ADMIN"), CAP_SYS_ADMIN);
  EXPECT_EQ(CapabilityNumber("BPF"), CAP_BPF);
  EXPECT_EQ(CapabilityNumber(""), -1);
}

TEST(EnvironmentTest, DefaultsImagesAndPodsInOrder) {
  const std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  EXPECT_EQ(*CompileEnvironment({}, {"h", "/root", false}),
            (std::vector<std::string>{path, "HOSTNAME=h", "HOME=/root"}));
  EXPECT_EQ(*CompileEnvironment({"PATH=/x", "A=1", "B=2", "A=3"}, {"h", "/root", true}),
            (std::vector<std::string>{"PATH=/x", "HOSTNAME=h", "TERM=xterm", "A=3", "B=2",
                                      "HOME=/root"}));
  EXPECT_EQ(
      *CompileEnvironment({"HOME=/mine", "TERM=vt100", "HOSTNAME=other"}, {"h", "/root", true}),
      (std::vector<std::string>{path, "HOSTNAME=other", "TERM=vt100", "HOME=/mine"}));
}

// PR-05, PR-07
TEST(EnvironmentTest, OddEntriesOfImages) {
  const auto env = CompileEnvironment({"X", "=X", "*", "X=", "", "Y=a\nb"}, {"", "/", false});
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(std::vector<std::string>(env->begin() + 1, env->end()),
            (std::vector<std::string>{"X=", "Y=a\nb", "HOME=/"}));
  EXPECT_FALSE(CompileEnvironment({std::string("A=1\0B=2", 7)}, {"", "/", false}).has_value());
}

TEST(LimitsTest, OpenFilesAreSystemdsAndNeverAboveTheHosts) {
  EXPECT_EQ(*CompileRlimits({}, Facts()),
            (std::vector<model::RlimitPlan>{{RLIMIT_NOFILE, 1024, 20000}}));
  sys::HostFacts facts = Facts();
  facts.cap_sys_resource = true;
  EXPECT_EQ((*CompileRlimits({}, facts))[0].hard, 524288u);
  EXPECT_EQ(*CompileRlimits({{"RLIMIT_NOFILE", 5, 6}, {"RLIMIT_CORE", 0, 0}}, facts),
            (std::vector<model::RlimitPlan>{{RLIMIT_NOFILE, 5, 6}, {RLIMIT_CORE, 0, 0}}));
  EXPECT_FALSE(CompileRlimits({{"RLIMIT_FOO", 1, 1}}, facts).has_value());
  EXPECT_FALSE(CompileRlimits({{"RLIMIT_CORE", 2, 1}}, facts).has_value());
}

model::LaunchPlan Compile(const model::ContainerSpec& spec, const FilesystemInput& input = {}) {
  model::LaunchPlan plan;
  FilesystemInput filled = input;
  filled.volumes.resize(spec.mounts.size(), 0);
  auto done = CompileFilesystem(spec, filled, plan);
  EXPECT_TRUE(done.has_value()) << done.error().message();
  return plan;
}

const model::MountPlan* Find(const model::LaunchPlan& plan, const std::string& destination) {
  const auto found = std::ranges::find(plan.mounts, destination, &model::MountPlan::destination);
  return found == plan.mounts.end() ? nullptr : &*found;
}

TEST(FilesystemTest, DefaultMountsMasksAndDevices) {
  const model::LaunchPlan plan = Compile({});
  for (const char* destination : {"/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys"}) {
    const model::MountPlan* mount = Find(plan, destination);
    ASSERT_NE(mount, nullptr) << destination;
    EXPECT_TRUE(mount->no_suid) << destination;
  }
  EXPECT_TRUE(Find(plan, "/sys")->read_only);
  EXPECT_EQ(Find(plan, "/dev/shm")->size_bytes, 64u << 20);
  EXPECT_EQ(plan.devices.size(), 6u);
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
                           "/sys/firmware", "/sys/devices/virtual/powercap", "/proc/interrupts"}) {
    EXPECT_NE(std::ranges::find(plan.masked_paths, path), plan.masked_paths.end()) << path;
  }
  for (const char* path : {"/proc/bus", "/proc/dynamic_debug", "/proc/fs", "/proc/irq", "/proc/sys",
                           "/proc/sysrq-trigger"}) {
    EXPECT_NE(std::ranges::find(plan.read_only_paths, path), plan.read_only_paths.end()) << path;
  }
}

TEST(FilesystemTest, EveryCpusThrottlingIsMasked) {
  std::string cpus = testing::TempDir() + "holdfast-cpus-XXXXXX";
  ASSERT_NE(::mkdtemp(cpus.data()), nullptr);
  for (const char* name : {"cpu0/thermal_throttle", "cpu11/thermal_throttle", "cpu2/cache",
                           "cpufreq/thermal_throttle", "cpuidle", "power"}) {
    std::filesystem::create_directories(cpus + "/" + name);
  }
  FilesystemInput input;
  input.throttle_paths = ThrottlePaths(cpus);
  std::filesystem::remove_all(cpus);
  std::ranges::sort(input.throttle_paths);
  EXPECT_EQ(input.throttle_paths,
            (std::vector<std::string>{"/sys/devices/system/cpu/cpu0/thermal_throttle",
                                      "/sys/devices/system/cpu/cpu11/thermal_throttle"}));
  const model::LaunchPlan plan = Compile({}, input);
  for (const std::string& path : input.throttle_paths) {
    EXPECT_NE(std::ranges::find(plan.masked_paths, path), plan.masked_paths.end()) << path;
  }
  EXPECT_TRUE(ThrottlePaths("/nonexistent").empty());
}

TEST(FilesystemTest, PrivilegedAndUnmasked) {
  model::ContainerSpec spec;
  spec.security.privileged = true;
  FilesystemInput input;
  input.host_devices = {{"kvm", false, 10, 232, 0660, 0, 108}};
  const model::LaunchPlan plan = Compile(spec, input);
  EXPECT_FALSE(Find(plan, "/sys")->read_only);
  EXPECT_TRUE(plan.masked_paths.empty());
  EXPECT_TRUE(plan.read_only_paths.empty());
  EXPECT_EQ(plan.devices.back().path, "kvm");
  spec = {};
  spec.security.unmasked_proc = true;
  EXPECT_TRUE(Compile(spec).masked_paths.empty());
}

TEST(FilesystemTest, BlockDevicesLieWhereThePodWantsThem) {
  model::ContainerSpec spec;
  spec.devices = {{{7, 5, 0660, 0, 6}, "/dev/disk/a"}, {{7, 6, 0600, 1, 0}, "/data//b", true}};
  auto devices = Compile(spec).devices;
  ASSERT_EQ(devices.size(), 8u);
  EXPECT_EQ(devices[6], (model::DevicePlan{"disk/a", true, 7, 5, 0660, 0, 6}));
  EXPECT_EQ(devices[7], (model::DevicePlan{"/data/b", true, 7, 6, 0600, 1, 0}));

  spec.security.privileged = true;
  spec.devices.resize(1);
  FilesystemInput input;
  input.host_devices = {{"disk/a", true, 8, 0, 0660, 0, 0}};
  devices = Compile(spec, input).devices;
  ASSERT_EQ(devices.size(), 7u) << "not the host's of the same name";
  EXPECT_EQ(devices.back().major, 7u);
}

TEST(FilesystemTest, WhereNoDeviceCanBe) {
  const auto refuses = [](const char* destination, const char* mount = "/srv") {
    model::ContainerSpec spec;
    spec.mounts.emplace_back().destination = mount;
    spec.devices = {{{7, 5, 0660, 0, 6}, destination}};
    model::LaunchPlan plan;
    FilesystemInput input;
    input.volumes = {0};
    const auto done = CompileFilesystem(spec, input, plan);
    return done ? "" : done.error().message();
  };
  EXPECT_EQ(refuses("/dev/a"), "");
  EXPECT_EQ(refuses("/srv/a", "/dev"), "");
  EXPECT_EQ(refuses("dev/a"), "device dev/a: the path is not absolute");
  EXPECT_EQ(refuses("/dev/"), "device /dev/: it cannot take the place of a directory");
  EXPECT_EQ(refuses("/"), "device /: it cannot take the place of a directory");
  EXPECT_EQ(refuses("/proc/a"), "device /proc/a: nothing may be made on /proc");
  EXPECT_EQ(refuses("/dev/a", "/dev"),
            "device /dev/a: /dev is a volume, in which no device is made");
}

TEST(FilesystemTest, OptionsOfTheNodesCgroupTreeAreKept) {
  const std::string before = "21 1 0:20 / /proc rw,nosuid - proc proc rw\n";
  const std::string line = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
  EXPECT_EQ(Cgroup2Options(before + line + ",nsdelegate,memory_recursiveprot\n" + before),
            "nsdelegate,memory_recursiveprot");
  EXPECT_EQ(Cgroup2Options(line), "");
  EXPECT_EQ(Cgroup2Options(before), "");
  EXPECT_EQ(Cgroup2Options("30 22 0:26 / /x rw - cgroup2 x"), "");
}

TEST(FilesystemTest, CgroupsByKindOfHost) {
  FilesystemInput input;
  input.cgroup_unified = true;
  const model::MountPlan* unified = Find(Compile({}, input), "/sys/fs/cgroup");
  ASSERT_NE(unified, nullptr);
  input = {};
  input.cgroup_unified = true;
  input.cgroup2_options = "nsdelegate";
  EXPECT_EQ(Find(Compile({}, input), "/sys/fs/cgroup")->options, "nsdelegate");
  input = {};
  input.cgroup_v1 = {{"cpu,cpuacct", "cpu,cpuacct"}, {"systemd", "name=systemd"}};
  const model::LaunchPlan plan = Compile({}, input);
  EXPECT_EQ(Find(plan, "/sys/fs/cgroup")->kind, Kind::kTmpfs);
  EXPECT_EQ(Find(plan, "/sys/fs/cgroup/systemd")->options, "name=systemd");
  EXPECT_TRUE(Find(plan, "/sys/fs/cgroup/cpu,cpuacct")->read_only);
  EXPECT_EQ(plan.read_only_paths[0], "/sys/fs/cgroup");
}

TEST(FilesystemTest, AVolumeTakesTheDefaultsPlace) {
  model::ContainerSpec spec;
  model::MountSpec volume;
  volume.source = "/host/dev";
  volume.destination = "/dev/";
  spec.mounts = {volume};
  const model::LaunchPlan plan = Compile(spec);
  EXPECT_EQ(Find(plan, "/dev")->kind, Kind::kBind);
  const auto position = [&](const char* d) { return Find(plan, d) - plan.mounts.data(); };
  EXPECT_LT(position("/dev"), position("/dev/pts"));
  EXPECT_EQ(std::ranges::count(plan.mounts, "/dev", &model::MountPlan::destination), 1);
}

TEST(FilesystemTest, DestinationsThatAreRefused) {
  for (const char* destination :
       {"", "relative", "/", "//", "/./", "/proc", "/proc/", "//proc//sys", "/proc/self/attr"}) {
    model::ContainerSpec spec;
    model::MountSpec volume;
    volume.destination = destination;
    spec.mounts = {volume};
    model::LaunchPlan plan;
    FilesystemInput input;
    input.volumes = {0};
    EXPECT_FALSE(CompileFilesystem(spec, input, plan).has_value()) << destination;
  }
}

TEST(SandboxPlanTest, NamespacesAndDefaultSysctls) {
  model::SandboxSpec spec;
  spec.hostname = "h";
  auto plan = CompileSandbox(spec);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->network && plan->ipc && plan->uts);
  EXPECT_EQ(plan->sysctls.at("net/ipv4/ip_unprivileged_port_start"), "0");
  EXPECT_EQ(plan->sysctls.at("net/ipv4/ping_group_range"), "0 2147483647");
  EXPECT_EQ(plan->shm_size_bytes, 64u << 20);
  spec.host_network = spec.host_ipc = true;
  plan = CompileSandbox(spec);
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(plan->network || plan->ipc || plan->uts);
  EXPECT_TRUE(plan->sysctls.empty());
  EXPECT_EQ(plan->hostname, "");
  EXPECT_EQ(plan->shm_size_bytes, 0u);
}

// PR-12
TEST(SandboxPlanTest, SysctlsAreCheckedByNameValueAndNamespace) {
  struct Row {
    const char* name;
    std::string value;
    bool host_network, host_ipc, ok;
  };
  const Row rows[] = {
      {"net.core.somaxconn", "1024", false, false, true},
      {"net/core/somaxconn", "1024", false, false, true},
      {"net.ipv4.conf.eth0/100.forwarding", "1", false, false, true},
      {"net.ipv4.ip_local_port_range", "1024 65535", false, false, true},
      {"kernel.shmmax", "123", false, false, true},
      {"kernel.shm_rmid_forced", "1", false, false, true},
      {"fs.mqueue.msg_max", "10", false, false, true},
      {"net.core.somaxconn", "1024", true, false, false},
      {"kernel.shmmax", "123", false, true, false},
      {"fs.mqueue.msg_max", "10", false, true, false},
      {"kernel.core_pattern", "x", false, false, false},
      {"kernel.hostname", "x", false, false, false},
      {"vm.swappiness", "1", false, false, false},
      {"kernel.shmmax+kernel.core_pattern", "1", false, false, false},
      {"net.ipv4.../../kernel.core_pattern", "1", false, false, false},
      {"net/../kernel/core_pattern", "1", false, false, false},
      {"/net/core/somaxconn", "1", false, false, false},
      {"net core", "1", false, false, false},
      {"", "1", false, false, false},
      {"net.core.somaxconn", "", false, false, false},
      {"net.core.somaxconn", "1\n2", false, false, false},
      {"net.core.somaxconn", "1+2", false, false, false},
      {"net.core.somaxconn", "a=b", false, false, false},
      {"net.core.somaxconn", std::string("1\0", 2), false, false, false},
      {"net.core.somaxconn", std::string(1 << 20, '1'), false, false, false},
  };
  for (const Row& row : rows) {
    model::SandboxSpec spec;
    spec.host_network = row.host_network;
    spec.host_ipc = row.host_ipc;
    spec.sysctls = {{row.name, row.value}};
    EXPECT_EQ(CompileSandbox(spec).has_value(), row.ok)
        << row.name << " = " << row.value.substr(0, 9);
  }
}

}  // namespace
}  // namespace holdfast::runtime
