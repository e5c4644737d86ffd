// SPDX-License-Identifier: Apache-2.0
// The steps of the recipes (recipe.cc has their order). Each is one file step_<name>.cc and runs in
// the launched child only. An error ends the launch; what can be done without is Child::Warn().
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/model/launch_plan.h"
#include "runtime/launch/child.h"

namespace holdfast::runtime {

// step_cgroups.cc
Result<void> EnterCgroups(Child& child, const model::CgroupPlan& plan);

// step_namespaces.cc
Result<void> JoinPodNamespaces(Child& child, const model::LaunchPlan& plan);
Result<void> MakeOwnNamespaces(Child& child, const model::LaunchPlan& plan);
Result<void> JoinTarget(Child& child, const model::ExecPlan& plan);

// step_successor.cc: what a container in a user namespace cannot do itself is done by a first
// child, which has the launcher's rights; then it clones the container's process.
Result<void> MakePreparationNamespace(Child& child, const model::LaunchPlan& plan);
Result<void> PrepareSysfs(Child& child, const model::LaunchPlan& plan);
// Returns in the successor only; the first child exits.
Result<void> CloneSuccessor(Child& child, const model::LaunchPlan& plan);
// The rest of the recipe is done as root of the user namespace that was just entered.
Result<void> BecomeNamespaceRoot();

// step_root.cc: Child::root
// Makes it, detached, with the layers' owners mapped.
Result<void> PrepareMappedRoot(Child& child, const model::LaunchPlan& plan);
Result<void> MountRoot(Child& child, const model::LaunchPlan& plan);
Result<void> SealRoot(Child& child, const model::LaunchPlan& plan);
Result<void> EnterRoot(Child& child, const model::LaunchPlan& plan);

// step_shared_memory.cc: Child::shared_memory, for the mount of kind kShared
Result<void> CopySharedMemory(Child& child, const model::LaunchPlan& plan);

// step_mounts.cc
Result<void> MountAll(Child& child, const model::LaunchPlan& plan);

// step_devices.cc
Result<void> MakeDevices(Child& child, const model::LaunchPlan& plan);

// step_masks.cc
Result<void> MaskPaths(Child& child, const model::LaunchPlan& plan);
Result<void> SealPaths(Child& child, const model::LaunchPlan& plan);

// step_directory.cc
Result<void> MakeWorkingDirectory(Child& child, const model::LaunchPlan& plan);
Result<void> EnterWorkingDirectory(Child& child, const model::ProcessPlan& plan);

// step_terminal.cc: Child::terminal, its master goes to the launcher
Result<void> OpenTerminal(Child& child, const model::ExecPlan& plan);
// /dev/console is the terminal.
Result<void> BindConsole(Child& child, const model::LaunchPlan& plan);
Result<void> ArrangeStreams(Child& child, const model::ProcessPlan& plan);

// step_limits.cc
Result<void> SetOomScore(Child& child, const model::ProcessPlan& plan);
Result<void> SetRlimits(Child& child, const model::ProcessPlan& plan);

// step_inheritance.cc: signals, umask, personality, descriptors
Result<void> DropInheritance(Child& child, const model::ProcessPlan& plan);
// Policy, slice and niceness of an ordinary process.
Result<void> ResetScheduling(Child& child, const model::ProcessPlan& plan);

// step_identity.cc
Result<void> TakeIdentity(Child& child, const model::ProcessPlan& plan);

// step_exec.cc
Result<void> FindCommand(Child& child, const model::ProcessPlan& plan);
Result<void> LoadSeccomp(Child& child, const model::ProcessPlan& plan);
Result<void> Execute(Child& child, const model::ProcessPlan& plan);

// step_sandbox.cc
Result<void> MakeSandboxNamespaces(Child& child, const model::SandboxPlan& plan);
Result<void> RaiseLoopback(Child& child, const model::SandboxPlan& plan);
Result<void> WriteSysctls(Child& child, const model::SandboxPlan& plan);
Result<void> MakeSharedMemory(Child& child, const model::SandboxPlan& plan);
Result<void> HandOverNamespaces(Child& child, const model::SandboxPlan& plan);
// The init lives as long as the pod, in sight of its containers: it gets an empty root and no
// rights.
Result<void> ConfineInit(Child& child, const model::SandboxPlan& plan);
Result<void> ExecuteInit(Child& child, const model::SandboxPlan& plan);

}  // namespace holdfast::runtime
