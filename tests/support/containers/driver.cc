// SPDX-License-Identifier: Apache-2.0
// containers_driver DIR CGROUP_PARENT OPERATION…: one operation of ContainerRuntime on the node in
// DIR, for tests that kill it. Ends with 0 and prints the operation's result, or 1 and the error.
//   begin | ensure UID | ensure-pooled UID | resize UID ID MILLI | start UID ID COMMAND… | kill ID
//   | remove ID | remove-sandbox UID | exec ID COMMAND… | repair
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/containers/runtime_node.h"
#include "tests/support/eventually.h"

namespace holdfast::test_support {
namespace {

int Report(const Result<void>& result) {
  if (result) return 0;
  std::fprintf(stderr, "driver: %s\n", result.error().message().c_str());
  return 1;
}

int Start(ContainerRuntime& runtime, const model::ContainerSpec& spec) {
  const auto started = runtime.Start(spec);
  if (!started) return Report(Error(started.error().error));
  std::printf("%d\n", started->pid);
  return 0;
}

// The container and its pod: no more of a CPU than that many thousandths.
Result<void> Resize(ContainerRuntime& runtime, const std::string& uid, const std::string& id,
                    int64_t milli) {
  model::ResourceSpec limited;
  limited.cpu_milli_limit = milli;
  return runtime.Resize(PodUid(uid), limited, {{RuntimeNode::Id(id), id, limited}});
}

// From a pool that has a member. The runtime knows of it a moment after the keeper does.
Result<void> EnsurePooled(const RuntimeNode& node, ContainerRuntime& runtime,
                          const std::string& uid) {
  runtime.KeepReady(1);
  const bool filled = Eventually([&] { return !node.Keeper().ListMembers()->empty(); });
  if (!filled) return Internal("no member of the pool");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return runtime.EnsureSandbox(node.Sandbox(uid));
}

bool HasExec(const RuntimeNode& node) {
  const auto starts = node.Keeper().ListStarts();
  return !starts || std::ranges::any_of(*starts, [](const runtime::keeper::StartRecord& start) {
    return start.kind == runtime::keeper::ProcessKind::kExec;
  });
}

// What the session leaves is taken away beside its caller: done when nothing of it is there.
int Exec(const RuntimeNode& node, ContainerRuntime& runtime, const ContainerId& id,
         const std::vector<std::string>& argv) {
  ExecSpec spec;
  spec.argv = argv;
  auto session = runtime.Exec(id, spec);
  if (!session) return Report(std::move(session.error()));
  const auto report = (*session)->Wait();
  session->reset();
  if (!Eventually([&] { return !HasExec(node); }))
    return Report(Internal("the exec is not forgotten"));
  return report ? report->exit_code : 1;
}

int Run(const RuntimeNode& node, const std::vector<std::string>& words) {
  const auto runtime = node.Open();
  const std::string& verb = words[0];
  const auto rest = [&](size_t from) {
    return std::vector<std::string>(words.begin() + static_cast<long>(from), words.end());
  };
  if (verb == "begin") return 0;
  if (verb == "ensure") return Report(runtime->EnsureSandbox(node.Sandbox(words[1])));
  if (verb == "ensure-pooled") return Report(EnsurePooled(node, *runtime, words[1]));
  if (verb == "start") return Start(*runtime, node.Container(words[1], words[2], rest(3)));
  if (verb == "resize") return Report(Resize(*runtime, words[1], words[2], std::stoll(words[3])));
  if (verb == "kill") return Report(runtime->Kill(RuntimeNode::Id(words[1])));
  if (verb == "remove") return Report(runtime->Remove(RuntimeNode::Id(words[1])));
  if (verb == "remove-sandbox") return Report(runtime->RemoveSandbox(PodUid(words[1])));
  if (verb == "exec") return Exec(node, *runtime, RuntimeNode::Id(words[1]), rest(2));
  if (verb == "repair") {
    const auto found = runtime->Audit({}, true);
    return found ? 0 : Report(Error(found.error()));
  }
  std::fprintf(stderr, "driver: unknown operation %s\n", verb.c_str());
  return 2;
}

}  // namespace
}  // namespace holdfast::test_support

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: containers_driver DIR CGROUP_PARENT OPERATION...\n");
    return 2;
  }
  const holdfast::test_support::RuntimeNode node(argv[1], argv[2]);
  return holdfast::test_support::Run(node, std::vector<std::string>(argv + 3, argv + argc));
}
