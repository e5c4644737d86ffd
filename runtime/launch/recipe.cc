// SPDX-License-Identifier: Apache-2.0
// The recipes: which steps, in which order, and nothing else.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "holdfast/sys/process.h"
#include "runtime/launch/child.h"
#include "runtime/launch/parent.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

template <class Plan>
struct Step {
  const char* name;
  Result<void> (*run)(Child&, const Plan&);
  bool at_exec = false;
};

constexpr Step<model::CgroupPlan> kCgroups[] = {
    {"cgroups", EnterCgroups},
};

// Until EnterRoot the child sees the launcher's mount namespace; the container's root is reached
// through Child::root only.
constexpr Step<model::LaunchPlan> kJoin[] = {
    {"join namespaces", JoinPodNamespaces},
};

// When the container has a user namespace: with the launcher's rights.
constexpr Step<model::LaunchPlan> kPrepare[] = {
    {"preparation namespace", MakePreparationNamespace},
    {"overlay root", PrepareMappedRoot},
    {"sysfs", PrepareSysfs},
    {"user namespace", EnterUserNamespace},
};

// Before "go", while the launcher writes the start record. All of it ends with the child, but for
// the empty upper and work directories in the container's scratch one.
constexpr Step<model::LaunchPlan> kRoot[] = {
    {"namespaces", MakeOwnNamespaces},
    {"shared mounts", CopySharedMounts},
    {"overlay root", MountRoot},
};

constexpr Step<model::LaunchPlan> kContainer[] = {
    {"mounts", MountAll},
    {"devices", MakeDevices},
    {"working directory", MakeWorkingDirectory},
    {"console", BindConsole},
    {"masked paths", MaskPaths},
    {"read-only paths", SealPaths},
    {"read-only root", SealRoot},
    {"pivot root", EnterRoot},
};

constexpr Step<model::ExecPlan> kExec[] = {
    {"join namespaces", JoinTarget},
    {"terminal", OpenTerminal},
};

constexpr Step<model::SandboxPlan> kSandbox[] = {
    {"namespaces", MakeSandboxNamespaces},
    {"loopback", RaiseLoopback},
    {"sysctls", WriteSysctls},
    {"shared mounts", MakeSharedMounts},
    {"hand over", HandOverNamespaces},
    {"init", EmptyInitsRoot},
    {"init", ConfineInit},
    {"init", ExecuteInit},
};

// Before the namespaces: this needs the launcher's privilege and its procfs.
constexpr Step<model::ProcessPlan> kBefore[] = {
    {"oom score", SetOomScore},
    {"AppArmor", SetAppArmor},
    {"SELinux", SetSelinux},
};

// Inside the container. From "descriptors" on a path that the container chose (working directory,
// command, PATH, a script's interpreter) finds nothing of ours to climb out by.
constexpr Step<model::ProcessPlan> kInside[] = {
    {"streams", ArrangeStreams},
    {"inheritance", DropInheritance},
    {"descriptors", CloseDescriptors},
    {"working directory", EnterWorkingDirectory},
    {"limits", SetRlimits},  // late: the recipe itself needs descriptors; it needs privilege still
    {"scheduling", ResetScheduling},  // late: until here it runs ahead of others; needs privilege
    {"identity", TakeIdentity},
    {"working directory", EnterWorkingDirectory},
    {"exec", FindCommand, true},
};

// Seccomp comes last: a profile then needs to allow nothing for our sake.
constexpr Step<model::ProcessPlan> kProgram[] = {
    {"session", LeadSession},
    {"seccomp", LoadSeccomp},
    {"exec", Execute, true},
};

// Where others can see the process as soon as it is born: by then it must have nothing that they
// have not, so the filter comes before, wherever it allows the little that is left to do.
constexpr Step<model::ProcessPlan> kBirth[] = {
    {"seccomp", ConfineBeforeBirth},
    {"birth", CloneLast},
};

template <class Plan, size_t N>
void Run(Child& child, const Step<Plan> (&recipe)[N], const Plan& plan) {
  for (const Step<Plan>& step : recipe) {
    auto done = step.run(child, plan);
    if (done) continue;
    ReportFailure(child.socket(), step.name, step.at_exec, done.error());
    ::_exit(1);
  }
}

// Keeps `keep` and 0 to 2 (which the streams replace), closes everything else. Copies only what
// lies below the highest of them: the cost is flat in what the launcher holds above.
Result<void> CopyDescriptors(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  RETURN_IF_ERROR(sys::CloseRange(static_cast<unsigned>(keep.back()) + 1, ~0u, true));
  int next = 3;
  for (int fd : keep) {
    if (fd > next) {
      RETURN_IF_ERROR(
          sys::CloseRange(static_cast<unsigned>(next), static_cast<unsigned>(fd) - 1, false));
    }
    next = fd + 1;
  }
  return {};
}

void BecomePrivate(const LaunchContext& host, std::span<const UniqueFd> fds, int socket) {
  std::vector<int> keep = {2, host.proc.get(), host.null.get(), socket};
  for (const UniqueFd& fd : fds) keep.push_back(fd.get());
  if (auto copied = CopyDescriptors(std::move(keep)); !copied) {
    ReportFailure(socket, "descriptors", false, copied.error());
    ::_exit(1);
  }
}

// What needs no "go". With a user namespace it returns as its root, mostly as another process.
void Prepare(Child& child, const model::LaunchPlan& plan) {
  Run(child, kBefore, plan.process);
  Run(child, kJoin, plan);
  if (plan.namespaces.user != model::kNoFd) Run(child, kPrepare, plan);
  Run(child, kRoot, plan);
}

void BecomeProgram(Child& child, const model::ProcessPlan& plan) {
  Run(child, kInside, plan);
  if (child.born_late) {
    Run(child, kBirth, plan);
    if (!AwaitGo(child.socket())) ::_exit(1);
  }
  Run(child, kProgram, plan);
}

}  // namespace

void RunChild(const LaunchContext& host, const model::Plan& plan, std::span<const UniqueFd> fds,
              int socket, char* begun) {
  BecomePrivate(host, fds, socket);
  // Nobody in a container that we are about to enter may trace us or read our memory.
  ::prctl(PR_SET_DUMPABLE, 0);
  ReportPlain(socket, ReportKind::kUnshared);
  Child child(host, fds, socket, begun, IsBornLate(plan));
  ::umask(0);  // every mode is given in full; the program gets its own mask
  Run(child, kCgroups, CgroupOf(plan));
  if (MayRunAhead(plan)) sys::RunAhead();  // the container's share of a busy machine may be tiny
  const auto* container = std::get_if<model::LaunchPlan>(&plan);
  if (container != nullptr) Prepare(child, *container);
  if (WaitsForGo(plan) && !child.born_late && !AwaitGo(socket)) ::_exit(1);

  if (container != nullptr) {
    Run(child, kContainer, *container);
    BecomeProgram(child, container->process);
  } else if (const auto* exec = std::get_if<model::ExecPlan>(&plan)) {
    Run(child, kBefore, exec->process);
    Run(child, kExec, *exec);
    BecomeProgram(child, exec->process);
  } else {
    Run(child, kSandbox, std::get<model::SandboxPlan>(plan));
  }
  ::_exit(0);
}

}  // namespace holdfast::runtime
