// SPDX-License-Identifier: Apache-2.0
// Containers from start to removal through ContainerRuntime, with a real keeper.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/tree.h"
#include "runtime/keeper/common/records.h"
#include "tests/support/containers/runtime_test.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::ReadText;
using test_support::RuntimeNode;

class LifecycleTest : public test_support::RuntimeTest {
 protected:
  void Ensure(const std::string& uid) {
    const auto ensured = runtime_->EnsureSandbox(node_->Sandbox(uid));
    ASSERT_TRUE(ensured) << ensured.error().message();
  }
  StartedContainer Start(const model::ContainerSpec& spec) {
    auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << (started ? "" : started.error().error.message());
    return started ? *started : StartedContainer{};
  }
  std::optional<ObservedContainer> Find(const ContainerId& id) {
    auto all = runtime_->ListContainers();
    EXPECT_TRUE(all);
    for (const ObservedContainer& seen : *all) {
      if (seen.id == id) return seen;
    }
    return std::nullopt;
  }
  // The report of a container that ends by itself.
  model::ExitReport AwaitExit(const ContainerId& id) {
    std::optional<ObservedContainer> seen;
    EXPECT_TRUE(Eventually([&] {
      seen = Find(id);
      return seen && seen->exit;
    })) << "no exit of "
        << id.value;
    return seen && seen->exit ? *seen->exit : model::ExitReport{};
  }
  std::vector<pid_t> ProcessesOf(const model::ContainerSpec& spec) {
    CgroupTreeOptions options;
    options.owner = node_->Options().instance.root_dir;
    options.parent = node_->cgroup_parent();
    auto tree = CgroupTree::Open(*DetectCgroupLayout("/sys/fs/cgroup"), options);
    EXPECT_TRUE(tree);
    auto cgroup = (*tree)->OpenContainer(spec.pod_uid, spec.qos, spec.id);
    EXPECT_TRUE(cgroup);
    return *Processes(*cgroup);
  }
  void RemoveAll(const std::string& uid, const std::vector<ContainerId>& ids) {
    for (const ContainerId& id : ids) {
      EXPECT_TRUE(runtime_->Kill(id));
      (void)AwaitExit(id);
      const auto removed = runtime_->Remove(id);
      EXPECT_TRUE(removed) << removed.error().message();
    }
    const auto removed = runtime_->RemoveSandbox(PodUid(uid));
    EXPECT_TRUE(removed) << removed.error().message();
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
  }
};

TEST_F(LifecycleTest, ContainerRunsEndsAndLeavesNothing) {
  Ensure("pod1");
  const auto spec =
      node_->Container("pod1", "a", {"/bin/sh", "-c", "echo hello; echo oops >&2; exit 7"});
  const StartedContainer started = Start(spec);
  EXPECT_GT(started.pid, 0);
  const model::ExitReport report = AwaitExit(spec.id);
  EXPECT_EQ(report.exit_code, 7);
  EXPECT_EQ(report.signal, 0);
  EXPECT_FALSE(report.oom_killed);
  EXPECT_TRUE(Eventually(
      [&] { return ReadText(spec.log.path).find(" stderr F oops\n") != std::string::npos; }));
  EXPECT_NE(ReadText(spec.log.path).find(" stdout F hello\n"), std::string::npos);
  RemoveAll("pod1", {spec.id});
}

TEST_F(LifecycleTest, EveryVerbCanBeRepeated) {
  Ensure("pod1");
  Ensure("pod1");
  const auto spec = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const pid_t pid = Start(spec).pid;
  EXPECT_EQ(Start(spec).pid, pid) << "the same container is not started twice";
  EXPECT_EQ(runtime_->Remove(spec.id).error().code(), Code::kConflict) << "it runs";
  EXPECT_TRUE(runtime_->Kill(spec.id));
  EXPECT_TRUE(runtime_->Kill(spec.id));
  const auto report = AwaitExit(spec.id);
  EXPECT_EQ(report.signal, SIGKILL);
  EXPECT_EQ(report.exit_code, 137);
  EXPECT_TRUE(runtime_->Kill(spec.id));
  EXPECT_TRUE(runtime_->Signal(spec.id, SIGTERM));
  EXPECT_TRUE(runtime_->Remove(spec.id));
  EXPECT_TRUE(runtime_->Remove(spec.id));
  EXPECT_FALSE(Find(spec.id));
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod1")));
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod1")));
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

TEST_F(LifecycleTest, ContainersOfAPodShareNetworkIpcUtsAndShmButNotPid) {
  Ensure("pod1");
  const auto one =
      node_->Container("pod1", "a", {"/bin/sh", "-c", "echo shared > /dev/shm/f; exec sleep 1000"});
  const auto two = node_->Container("pod1", "b", {"/bin/sleep", "1000"});
  const pid_t first = Start(one).pid;
  const pid_t second = Start(two).pid;
  const auto ns = [](pid_t pid, const char* kind) {
    return std::filesystem::read_symlink(StrCat("/proc/", pid, "/ns/", kind)).string();
  };
  for (const char* kind : {"net", "ipc", "uts"}) {
    EXPECT_EQ(ns(first, kind), ns(second, kind)) << kind;
    EXPECT_NE(ns(first, kind),
              std::filesystem::read_symlink(StrCat("/proc/self/ns/", kind)).string())
        << kind;
  }
  for (const char* kind : {"pid", "mnt"}) EXPECT_NE(ns(first, kind), ns(second, kind)) << kind;
  EXPECT_TRUE(Eventually(
      [&] { return ReadText(StrCat("/proc/", second, "/root/dev/shm/f")) == "shared\n"; }));
  auto net = runtime_->NetworkNamespace(PodUid("pod1"));
  ASSERT_TRUE(net) << net.error().message();
  struct stat ours{}, theirs{};
  ASSERT_EQ(::fstat(net->get(), &ours), 0);
  ASSERT_EQ(::stat(StrCat("/proc/", first, "/ns/net").c_str(), &theirs), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
  net->Reset();
  RemoveAll("pod1", {one.id, two.id});
}

TEST_F(LifecycleTest, ProcessLiesInItsCgroupsWithItsLimits) {
  Ensure("pod1");
  auto spec = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  spec.resources.memory_limit_bytes = 32 << 20;
  spec.resources.oom_score_adj = 700;
  const pid_t pid = Start(spec).pid;
  const std::string expected =
      StrCat(node_->cgroup_parent(), "/kubepods/besteffort/podpod1/", spec.id.value);
  const std::string cgroups = ReadText(StrCat("/proc/", pid, "/cgroup"));
  const bool v1 = DetectCgroupLayout("/sys/fs/cgroup")->version == CgroupVersion::kV1;
  for (const char* controller : {"memory", "cpu", "pids", "devices"}) {
    const std::string line =
        v1 ? StrCat(":", controller, ":", expected, "\n") : StrCat("0::", expected, "\n");
    EXPECT_NE(cgroups.find(line), std::string::npos) << cgroups;
  }
  EXPECT_EQ(ReadText(StrCat("/proc/", pid, "/oom_score_adj")), "700\n");
  RemoveAll("pod1", {spec.id});
}

TEST_F(LifecycleTest, OomKillIsReported) {
  Ensure("pod1");
  auto spec = node_->Container("pod1", "a", {"/bin/sh", "-c", "x=a; while true; do x=$x$x; done"});
  spec.resources.memory_limit_bytes = 16 << 20;
  Start(spec);
  const auto report = AwaitExit(spec.id);
  EXPECT_TRUE(report.oom_killed);
  EXPECT_EQ(report.exit_code, 137);
  // The mark is kept: a new agent sees it too.
  runtime_.reset();
  runtime_ = node_->Open();
  EXPECT_TRUE(AwaitExit(spec.id).oom_killed);
  RemoveAll("pod1", {spec.id});
}

TEST_F(LifecycleTest, FailedStartsSayWhyAndLeaveNothing) {
  Ensure("pod1");
  auto missing = node_->Container("pod1", "a", {"/no/such/program"});
  auto started = runtime_->Start(missing);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().phase, StartFailure::Phase::kStart);
  EXPECT_NE(started.error().error.message().find("no such file or directory"), std::string::npos)
      << started.error().error.message();

  auto root = node_->Container("pod1", "b", {"/bin/true"});
  root.user.run_as_non_root = true;
  started = runtime_->Start(root);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().phase, StartFailure::Phase::kConfig) << started.error().error.message();

  auto nobody = node_->Container("pod1", "c", {"/bin/true"});
  nobody.user.image_user = "nosuchuser";
  started = runtime_->Start(nobody);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().error.message().find("nosuchuser"), std::string::npos);

  auto orphan = node_->Container("nopod", "d", {"/bin/true"});
  EXPECT_FALSE(runtime_->Start(orphan)) << "no sandbox";
  RemoveAll("pod1", {});
}

TEST_F(LifecycleTest, HintComesWithTheExit) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<PodUid> hinted;
  runtime_->SetChangeHint([&](const PodUid& uid) {
    const std::lock_guard lock(mutex);
    hinted.insert(uid);
    changed.notify_all();
  });
  Ensure("pod1");
  const auto spec = node_->Container("pod1", "a", {"/bin/true"});
  Start(spec);
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10),
                                 [&] { return hinted.contains(spec.pod_uid); }));
  }
  EXPECT_TRUE(Find(spec.id)->exit) << "the hint means that the end is known";
  runtime_->SetChangeHint(nullptr);
  RemoveAll("pod1", {spec.id});
}

TEST_F(LifecycleTest, OnePodIsObservedAsTheListsShowIt) {
  Ensure("pod1");
  Ensure("pod2");
  const auto lasting = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const auto ending = node_->Container("pod1", "b", {"/bin/sh", "-c", "exit 5"});
  const auto other = node_->Container("pod2", "c", {"/bin/sleep", "1000"});
  for (const auto& spec : {lasting, ending, other}) Start(spec);
  EXPECT_EQ(AwaitExit(ending.id).exit_code, 5);
  const ObservedPod seen = runtime_->Observe(PodUid("pod1"));
  ASSERT_EQ(seen.containers.size(), 2u);
  for (const ObservedContainer& c : seen.containers) EXPECT_EQ(Find(c.id), c);
  ASSERT_TRUE(seen.sandbox);
  EXPECT_TRUE(seen.sandbox->ready);
  // As after a keeper that lost them: known at the latest after the next list.
  ASSERT_TRUE(node_->Keeper().DropSandbox(PodUid("pod2")));
  ASSERT_TRUE(runtime_->ListSandboxes());
  EXPECT_FALSE(runtime_->Observe(PodUid("pod2")).sandbox->ready);
  EXPECT_TRUE(runtime_->Observe(PodUid("pod1")).sandbox->ready);
  EXPECT_FALSE(runtime_->Observe(PodUid("nobody")).sandbox);
  ASSERT_TRUE(runtime_->Kill(other.id));
  (void)AwaitExit(other.id);
  ASSERT_TRUE(runtime_->RemoveSandbox(PodUid("pod2")));
  RemoveAll("pod1", {lasting.id, ending.id});
  EXPECT_FALSE(runtime_->Observe(PodUid("pod1")).sandbox);
}

TEST_F(LifecycleTest, NewAgentAdoptsWhatRunsAndWhatEndedMeanwhile) {
  Ensure("pod1");
  const auto lasting = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const auto ending =
      node_->Container("pod1", "b", {"/bin/sh", "-c", "read x < /dev/null; sleep 0.2; exit 5"});
  const StartedContainer started = Start(lasting);
  Start(ending);
  const auto before = Find(lasting.id);
  runtime_.reset();
  EXPECT_TRUE(Eventually([&] { return node_->Keeper().ListExits()->size() == 1; }));
  runtime_ = node_->Open();
  EXPECT_EQ(Find(lasting.id), before);
  EXPECT_EQ(Find(lasting.id)->pid, started.pid);
  EXPECT_EQ(AwaitExit(ending.id).exit_code, 5);
  auto sandboxes = runtime_->ListSandboxes();
  ASSERT_TRUE(sandboxes);
  ASSERT_EQ(sandboxes->size(), 1u);
  EXPECT_EQ((*sandboxes)[0].pod_name, "pod1");
  EXPECT_TRUE((*sandboxes)[0].ready);
  EXPECT_TRUE((*sandboxes)[0].has_network);
  RemoveAll("pod1", {lasting.id, ending.id});
}

TEST_F(LifecycleTest, NewAgentTakesExitRecordsOfForgottenProcessesAway) {
  // As left by an agent or a holder that was killed after it had written what another one forgot.
  auto records = keeper::Records::Open(node_->dir() + "/run");
  ASSERT_TRUE(records);
  ASSERT_TRUE(records->WriteExit({RuntimeNode::Id("f").value, 4242, 1, {}}));
  runtime_.reset();
  runtime_ = node_->Open();
  EXPECT_TRUE(node_->Keeper().ListExits()->empty());
}

TEST_F(LifecycleTest, HostNetworkPodHasNoNamespaceOfItsOwn) {
  auto sandbox = node_->Sandbox("host");
  sandbox.host_network = true;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  EXPECT_EQ(runtime_->NetworkNamespace(sandbox.uid).error().code(), Code::kNotFound);
  auto spec = node_->Container("host", "a", {"/bin/sleep", "1000"});
  spec.namespaces.network = model::NamespaceMode::kHost;
  spec.namespaces.uts = model::NamespaceMode::kHost;
  const pid_t pid = Start(spec).pid;
  // The host of the launcher is this test's network namespace.
  EXPECT_EQ(std::filesystem::read_symlink(StrCat("/proc/", pid, "/ns/net")),
            std::filesystem::read_symlink("/proc/self/ns/net"));
  RemoveAll("host", {spec.id});
}

TEST_F(LifecycleTest, SharedProcessNamespaceHasOurInitAndKillTakesTheWholeContainer) {
  auto sandbox = node_->Sandbox("pod1");
  sandbox.share_process_namespace = true;
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  ASSERT_TRUE(ensured) << ensured.error().message();
  auto one = node_->Container("pod1", "a", {"/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"});
  auto two = node_->Container("pod1", "b", {"/bin/sleep", "1000"});
  one.namespaces.pid = model::NamespaceMode::kPod;
  two.namespaces.pid = model::NamespaceMode::kPod;
  const pid_t first = Start(one).pid;
  const pid_t second = Start(two).pid;
  const auto pid_ns = [](pid_t pid) {
    return std::filesystem::read_symlink(StrCat("/proc/", pid, "/ns/pid")).string();
  };
  EXPECT_EQ(pid_ns(first), pid_ns(second));
  EXPECT_NE(pid_ns(first), std::filesystem::read_symlink("/proc/self/ns/pid").string());
  EXPECT_EQ(ReadText(StrCat("/proc/", first, "/root/proc/1/comm")), "holdfast-init\n");
  // No file of the node, and not readable: so it never was dumpable, and no container reached it.
  const std::string exe = StrCat("/proc/", first, "/root/proc/1/exe");
  EXPECT_EQ(std::filesystem::read_symlink(exe), "/memfd:holdfast-init (deleted)");
  EXPECT_EQ(std::filesystem::status(exe).permissions(), std::filesystem::perms(0111));
  EXPECT_TRUE(Eventually([&] { return ProcessesOf(one).size() == 3; }));
  EXPECT_TRUE(runtime_->Kill(one.id));
  EXPECT_EQ(AwaitExit(one.id).exit_code, 137);
  EXPECT_TRUE(Eventually([&] { return ProcessesOf(one).empty(); })) << "its children end too";
  EXPECT_FALSE(Find(two.id)->exit) << "the other container does not";
  RemoveAll("pod1", {one.id, two.id});
}

// `param`: the agent is another one by then.
class InitOfTheOthers : public LifecycleTest, public ::testing::WithParamInterface<bool> {};

TEST_P(InitOfTheOthers, KilledTheSandboxIsLostAndMadeAnew) {
  auto sandbox = node_->Sandbox("pod1");
  sandbox.share_process_namespace = true;
  ASSERT_TRUE(runtime_->EnsureSandbox(sandbox));
  auto one = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  auto two = node_->Container("pod1", "b", {"/bin/sleep", "1000"});
  one.namespaces.pid = model::NamespaceMode::kPod;
  two.namespaces.pid = model::NamespaceMode::kPod;
  Start(one);
  auto init = one;
  init.id = ContainerId("sandbox");
  ASSERT_EQ(ProcessesOf(init).size(), 1u);
  if (GetParam()) {
    runtime_.reset();
    runtime_ = node_->Open();
  }
  const auto ready = [&] { return runtime_->Observe(PodUid("pod1")).sandbox->ready; };
  EXPECT_TRUE(ready());
  ASSERT_EQ(::kill(ProcessesOf(init)[0], SIGKILL), 0);
  EXPECT_EQ(AwaitExit(one.id).exit_code, 137);
  EXPECT_TRUE(Eventually([&] { return !ready(); }));
  const auto ensured = runtime_->EnsureSandbox(sandbox);
  ASSERT_TRUE(ensured) << ensured.error().message();
  EXPECT_TRUE(ready());
  EXPECT_GT(Start(two).pid, 0);
  EXPECT_EQ(ProcessesOf(init).size(), 1u);
  RemoveAll("pod1", {one.id, two.id});
}

INSTANTIATE_TEST_SUITE_P(Of, InitOfTheOthers, ::testing::Bool(), [](const auto& which) {
  return which.param ? "AnEarlierAgent" : "ThisAgent";
});

// As systemd takes away what it delegates when a person stops that unit.
TEST_F(LifecycleTest, PodsStartAgainWhoseCgroupsWereTakenAway) {
  Ensure("pod1");
  const auto before = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  const auto after = node_->Container("pod1", "b", {"/bin/sleep", "1000"});
  const auto of_another = node_->Container("pod2", "c", {"/bin/sleep", "1000"});
  Start(before);
  {
    const auto backend = MakeCgroupBackend(*DetectCgroupLayout("/sys/fs/cgroup"));
    Cgroup root{"", {}};
    for (const CgroupHierarchy& hierarchy : backend->layout().hierarchies) {
      root.dirs.push_back(*sys::OpenDir(hierarchy.mount_point));
    }
    const auto removed = RemoveChild(*backend, root, node_->cgroup_parent().substr(1));
    ASSERT_TRUE(removed) << removed.error().message();
  }
  EXPECT_EQ(AwaitExit(before.id).exit_code, 137);
  EXPECT_GT(Start(after).pid, 0);
  EXPECT_EQ(ProcessesOf(after).size(), 1u);
  Ensure("pod2");
  EXPECT_GT(Start(of_another).pid, 0);
  EXPECT_TRUE(runtime_->Kill(of_another.id));
  (void)AwaitExit(of_another.id);
  EXPECT_TRUE(runtime_->Remove(of_another.id));
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod2")));
  RemoveAll("pod1", {before.id, after.id});
}

TEST_F(LifecycleTest, StdinWaitsInsteadOfEnding) {
  Ensure("pod1");
  auto waiting = node_->Container("pod1", "a", {"/bin/cat"});
  waiting.stdin_open = true;
  Start(waiting);
  auto pipe = node_->Keeper().GetFds("stdin." + waiting.id.value);
  ASSERT_TRUE(pipe) << pipe.error().message();
  ASSERT_EQ(::write((*pipe)[0].get(), "in\n", 3), 3);
  EXPECT_TRUE(Eventually(
      [&] { return ReadText(waiting.log.path).find(" stdout F in\n") != std::string::npos; }));
  EXPECT_FALSE(Find(waiting.id)->exit) << "it reads from an open pipe";
  pipe->clear();
  RemoveAll("pod1", {waiting.id});
}

TEST_F(LifecycleTest, AuditFindsAndRepairsWhatBelongsToNobody) {
  Ensure("pod1");
  const auto spec = node_->Container("pod1", "a", {"/bin/sleep", "1000"});
  Start(spec);
  EXPECT_TRUE(runtime_->Audit({PodUid("pod1")}, false)->empty());
  EXPECT_TRUE(runtime_->Audit({}, true)->empty())
      << "ensured just now: the caller may not know yet";
  runtime_.reset();
  // A container directory, a pod directory and scratch that no record tells of; a damaged record.
  std::filesystem::create_directories(node_->dir() + "/root/pods/gone/containers/web/3/root/upper");
  std::ofstream(node_->dir() + "/run/runtime/containers/broken") << "?";
  runtime_ = node_->Open();
  auto found = runtime_->Audit({PodUid("pod1")}, false);
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].kind, "directory");
  EXPECT_EQ((*found)[1].kind, "record");
  EXPECT_TRUE(Find(spec.id)) << "looking changes nothing";

  found = runtime_->Audit({}, true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), 4u);  // and the container and its sandbox
  for (const Leftover& leftover : *found) {
    EXPECT_EQ(leftover.reason.find("failed"), std::string::npos) << leftover.reason;
  }
  EXPECT_TRUE(runtime_->Audit({}, false)->empty());
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast::runtime
