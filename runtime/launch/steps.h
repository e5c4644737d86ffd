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
// With a pid namespace of its own it returns in the successor only; the first child exits.
Result<void> EnterUserNamespace(Child& child, const model::LaunchPlan& plan);
// The rest of the recipe is done as root of the user namespace that was just entered.
Result<void> BecomeNamespaceRoot();

// step_root.cc: Child::root
// Makes it, detached, with the layers' owners mapped.
Result<void> PrepareMappedRoot(Child& child, const model::LaunchPlan& plan);
Result<void> MountRoot(Child& child, const model::LaunchPlan& plan);
Result<void> SealRoot(Child& child, const model::LaunchPlan& plan);
Result<void> EnterRoot(Child& child, const model::LaunchPlan& plan);

// step_shared_mounts.cc: Child::shared_memory for the mount of kind kShared, Child::procfs for one
// of kind kProc with a source
Result<void> CopySharedMounts(Child& child, const model::LaunchPlan& plan);

// step_mounts.cc
// Child::sysfs
Result<void> PrepareSysfs(Child& child, const model::LaunchPlan& plan);
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
// Leads a session of its own, whose controlling terminal is the streams' one, if it is.
Result<void> LeadSession(Child& child, const model::ProcessPlan& plan);

// step_limits.cc
Result<void> SetOomScore(Child& child, const model::ProcessPlan& plan);
Result<void> SetRlimits(Child& child, const model::ProcessPlan& plan);

// step_app_armor.cc: the profile that execve(2) puts the program under; what the child clones before has it too
Result<void> SetAppArmor(Child& child, const model::ProcessPlan& plan);

// step_selinux.cc: the label that execve(2) puts the program under; what the child clones before has it too
Result<void> SetSelinux(Child& child, const model::ProcessPlan& plan);
// Everything on a file system that is about to be made has the label, for good. "": nothing is said.
Result<void> SetLabelOfAll(int context, const std::string& label);
// The same behind the options of mount(2): ",context=…".
std::string LabelOption(const std::string& label);
// The top of a file system has the label, and with it what is made there, where it knows labels at all.
Result<void> LabelTop(int mount, const std::string& label);

// step_inheritance.cc: signal mask, umask
Result<void> DropInheritance(Child& child, const model::ProcessPlan& plan);
// Policy, slice and niceness of an ordinary process.
Result<void> ResetScheduling(Child& child, const model::ProcessPlan& plan);

// step_descriptors.cc: closes everything but the streams and the report socket. Nothing that owns a
// descriptor may be in scope: it would close another one later, which has got its number.
Result<void> CloseDescriptors(Child& child, const model::ProcessPlan& plan);
// The same, and `kept` stays open: its new number.
Result<int> CloseDescriptorsBut(Child& child, int kept);

// step_identity.cc
Result<void> TakeIdentity(Child& child, const model::ProcessPlan& plan);
// CAP_SYS_ADMIN is permitted still, for LoadSeccomp, but not effective: no path is looked up with
// it.
Result<void> RaiseForSeccomp(const Child& child);
// The program's own, and nothing more. Where the filter in force refuses capset, exec does it.
Result<void> LowerAfterSeccomp(const Child& child, const model::ProcessPlan& plan);

// step_birth.cc: IsBornLate(plan)
Result<void> ConfineBeforeBirth(Child& child, const model::ProcessPlan& plan);
// Returns in the new process only, which nobody may have reached yet; the child exits.
Result<void> CloneLast(Child& child, const model::ProcessPlan& plan);

// step_exec.cc
Result<void> FindCommand(Child& child, const model::ProcessPlan& plan);
// Unless it is loaded already.
Result<void> LoadSeccomp(Child& child, const model::ProcessPlan& plan);
Result<void> Execute(Child& child, const model::ProcessPlan& plan);

// step_sandbox.cc
Result<void> MakeSandboxNamespaces(Child& child, const model::SandboxPlan& plan);
Result<void> RaiseLoopback(Child& child, const model::SandboxPlan& plan);
Result<void> WriteSysctls(Child& child, const model::SandboxPlan& plan);
Result<void> MakeSharedMounts(Child& child, const model::SandboxPlan& plan);
Result<void> HandOverNamespaces(Child& child, const model::SandboxPlan& plan);
// The init lives as long as the pod, in sight of its containers: it gets an empty root, no
// descriptors and no rights.
Result<void> EmptyInitsRoot(Child& child, const model::SandboxPlan& plan);
Result<void> ConfineInit(Child& child, const model::SandboxPlan& plan);
Result<void> ExecuteInit(Child& child, const model::SandboxPlan& plan);

}  // namespace holdfast::runtime
