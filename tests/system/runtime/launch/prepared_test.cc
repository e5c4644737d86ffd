// SPDX-License-Identifier: Apache-2.0
// From a ContainerSpec over the wire into a running container, as agent and launcher do it.
#include "runtime/gather/prepare.h"

#include <sys/mount.h>
#include <sys/xattr.h>

#include "runtime/plan/wire.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class PreparedTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(Path("image/etc"));
    WriteFile("image/etc/passwd",
              "root:x:0:0:root:/root:/bin/sh\nweb:x:1001:1002:Web:/srv/web:/bin/sh\n");
    WriteFile("image/etc/group", "root:x:0:\nweb:x:1002:\nstaff:x:50:web\n");
  }

  model::ContainerSpec Spec(std::vector<std::string> argv) {
    model::ContainerSpec spec;
    spec.id = NewContainerId();
    spec.pod_uid = PodUid("uid-1");
    spec.pod_namespace = "default";
    spec.pod_name = "web";
    spec.name = "main";
    spec.root_fs.layers = {Path("image")};
    spec.root_fs.scratch = Path("scratch");
    spec.argv = std::move(argv);
    spec.hostname = "web";
    spec.namespaces.network = spec.namespaces.ipc = spec.namespaces.uts =
        model::NamespaceMode::kHost;
    return spec;
  }

  // The launcher's part: bytes and descriptors in.
  RunResult RunPrepared(std::expected<PreparedPlan, StartFailure> prepared) {
    if (!prepared) {
      RunResult failed;
      failed.outcome.error = prepared.error().error;
      failed.outcome.step = "prepare";
      return failed;
    }
    for (int fd : prepared->fds) AddFd(UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)));
    auto plan = ParsePlan(SerializePlan(prepared->plan), fds_.size());
    EXPECT_TRUE(plan.has_value()) << plan.error().message();
    return Run(std::move(*plan));
  }

  RunResult RunSpec(const model::ContainerSpec& spec) {
    return RunPrepared(PrepareContainer(spec, context_.facts, {}));
  }
};

TEST_F(PreparedTest, ADefaultContainerIsConfined) {
  const RunResult facts = RunSpec(Spec({"probe", "facts"}));
  ASSERT_EQ(facts.outcome.state, State::kRunning) << Why(facts);
  EXPECT_EQ(facts.Fact("CapEff"), "00000000a80425fb");
  EXPECT_EQ(facts.Fact("Seccomp"), "2");
  EXPECT_EQ(facts.Fact("NoNewPrivs"), "0");
  EXPECT_EQ(facts.Fact("fds"), "0 1 2");
  for (const char* entry : {"HOSTNAME=web", "HOME=/root",
                            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}) {
    EXPECT_NE(facts.output.find(std::string("env ") + entry + "\n"), std::string::npos) << entry;
  }
  const RunResult calls = RunSpec(Spec({"probe", "syscalls"}));
  ASSERT_EQ(calls.outcome.state, State::kRunning) << Why(calls);
  const std::map<std::string, std::string> expected = {
      {"unshare_user", "EPERM"},  {"clone3", "ENOSYS"},
      {"clone_newuser", "EPERM"}, {"socket_alg", "EPERM"},
      {"socket_vsock", "EPERM"},  {"socket_inet", "ok"},
      {"socket_netlink", "ok"},   {"io_uring_setup", "EPERM"},
      {"keyctl", "EPERM"},        {"bpf", "EPERM"},
      {"userfaultfd", "EPERM"},   {"mount", "EPERM"},
      {"sethostname", "EPERM"},   {"getppid", "ok"}};
  for (const auto& [name, result] : expected) EXPECT_EQ(calls.Fact(name), result) << name;
}

TEST_F(PreparedTest, TheImagesUserIsFoundByNameAndByNumber) {
  const struct {
    const char* image_user;
    const char* ids;
    const char* groups;
    const char* home;
  } rows[] = {
      {"", "0 0", "0", "/root"},
      {"web", "1001 1002", "50 1002", "/srv/web"},
      {"1001", "1001 1002", "50 1002", "/srv/web"},
      {"web:staff", "1001 50", "50", "/srv/web"},
      {"1001:7", "1001 7", "7 50", "/srv/web"},
      {"5555", "5555 0", "0", "/"},
  };
  for (const auto& row : rows) {
    model::ContainerSpec spec = Spec({"/bin/probe", "facts"});
    spec.user.image_user = row.image_user;
    const RunResult run = RunSpec(spec);
    ASSERT_EQ(run.outcome.state, State::kRunning) << row.image_user << ": " << Why(run);
    EXPECT_EQ(run.Fact("uid") + " " + run.Fact("gid"), row.ids) << row.image_user;
    EXPECT_EQ(run.Fact("groups"), row.groups) << row.image_user;
    EXPECT_NE(run.output.find(std::string("env HOME=") + row.home + "\n"), std::string::npos)
        << row.image_user;
  }
}

TEST_F(PreparedTest, VolumesWithSubPathsModesAndPropagation) {
  std::filesystem::create_directories(Path("volume/sub"));
  WriteFile("volume/sub/file", "content");
  WriteFile("single", "one file");
  model::ContainerSpec spec = Spec({"probe", "cat", "/data/file", "/etc/one"});
  model::MountSpec data;
  data.source = Path("volume");
  data.sub_path = "sub";
  data.destination = "/data";
  model::MountSpec single;
  single.source = Path("single");
  single.destination = "/etc/one";
  spec.mounts = {data, single};
  const RunResult read = RunSpec(spec);
  ASSERT_EQ(read.outcome.state, State::kRunning) << Why(read);
  EXPECT_EQ(read.output, "contentone file");

  spec = Spec({"probe", "write", "/data/new", "x"});
  data.read_only = true;
  spec.mounts = {data};
  EXPECT_NE(RunSpec(spec).output.find("Read-only file system"), std::string::npos);

  spec = Spec({"probe", "write", "/data/new", "x"});
  data.read_only = false;
  data.sub_path = "made/on/demand";
  spec.mounts = {data};
  EXPECT_NE(RunSpec(spec).output.find("written"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(Path("volume/made/on/demand/new")));
}

TEST_F(PreparedTest, ReadOnlyIsRecursiveOnlyWhenAsked) {
  const std::string below = Path("volume/below");
  std::filesystem::create_directory(below);
  ASSERT_EQ(::mount("none", below.c_str(), "tmpfs", 0, nullptr), 0);
  for (const bool recursive : {false, true}) {
    model::ContainerSpec spec = Spec({"probe", "write", "/data/below/file", "x"});
    model::MountSpec data;
    data.source = Path("volume");
    data.destination = "/data";
    data.read_only = true;
    data.recursive_read_only = recursive;
    spec.mounts = {data};
    const RunResult run = RunSpec(spec);
    EXPECT_EQ(run.output.find("Read-only file system") != std::string::npos, recursive)
        << Why(run) << run.output;
  }
  ::umount2(below.c_str(), MNT_DETACH);
}

TEST_F(PreparedTest, PrivilegedSeesAllDevicesAndMayWriteSys) {
  model::ContainerSpec spec = Spec({"probe", "facts"});
  spec.security.privileged = true;
  const RunResult run = RunSpec(spec);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("Seccomp"), "0");
  char all[32];
  std::snprintf(all, sizeof all, "%016lx", static_cast<unsigned long>(context_.facts.capabilities));
  EXPECT_EQ(run.Fact("CapEff"), all);
  EXPECT_TRUE(run.outcome.warnings.empty());
  spec = Spec({"probe", "mounts"});
  spec.security.privileged = true;
  const RunResult mounts = RunSpec(spec);
  EXPECT_NE(mounts.output.find(" /sys rw"), std::string::npos) << mounts.output;
  EXPECT_EQ(mounts.output.find(" /proc/sys "), std::string::npos) << mounts.output;
}

TEST_F(PreparedTest, ExecHasTheContainersUserEnvironmentAndProfile) {
  model::ContainerSpec spec = Spec({"probe", "sleep"});
  spec.user.image_user = "web";
  spec.env = {"COLOUR=blue"};
  spec.security.allow_privilege_escalation = false;
  auto prepared = PrepareContainer(spec, context_.facts, {});
  ASSERT_TRUE(prepared.has_value()) << prepared.error().error.message();
  for (int fd : prepared->fds) AddFd(UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)));
  Running container = Start(prepared->plan);
  ASSERT_EQ(container.outcome.state, State::kRunning)
      << container.outcome.step
      << (container.outcome.error ? container.outcome.error->message() : "");
  const PidFd target = container.launch->DuplicatePidFd();
  const RunResult run = RunPrepared(
      PrepareExec(spec, {.argv = {"probe", "facts"}}, context_.facts, {}, target.get()));
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("uid"), "1001");
  EXPECT_EQ(run.Fact("Seccomp"), "2");
  EXPECT_EQ(run.Fact("NoNewPrivs"), "1");
  EXPECT_NE(run.output.find("env COLOUR=blue\n"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("env HOME=/srv/web\n"), std::string::npos) << run.output;
  Stop(container);
}

TEST_F(PreparedTest, ALocalhostProfileIsApplied) {
  WriteFile("profile.json", R"({"defaultAction":"SCMP_ACT_ALLOW",
      "syscalls":[{"names":["socket"],"action":"SCMP_ACT_ERRNO","errnoRet":13}]})");
  model::ContainerSpec spec = Spec({"probe", "syscalls"});
  spec.security.seccomp = model::SecuritySpec::Seccomp::kLocalhost;
  spec.security.seccomp_profile = Path("profile.json");
  const RunResult run = RunSpec(spec);
  ASSERT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.Fact("socket_inet"), "EACCES");
}

TEST_F(PreparedTest, RunAsNonRootIsCheckedBeforeAnythingStarts) {
  model::ContainerSpec spec = Spec({"probe"});
  spec.user.run_as_non_root = true;
  spec.user.image_user = "web";
  auto refused = PrepareContainer(spec, context_.facts, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().phase, StartFailure::Phase::kConfig);
  EXPECT_EQ(
      refused.error().error.message(),
      "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is "
      "non-root (pod: \"web_default(uid-1)\", container: main)");
}

}  // namespace
}  // namespace holdfast::runtime
