// SPDX-License-Identifier: Apache-2.0
// MakeLaunchContext and EnterLauncherMountNamespace: what the launcher does once, at its start.
#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/target.h"

namespace holdfast::runtime {
namespace {

constexpr int kSignalCount = 64;  // of the kernel, real-time ones included
constexpr unsigned long kTimerSlackNanoseconds =
    50'000;  // the first process' (proc_pid_timerslack_ns(5))

Result<void> AttachBelow(int root, int mount, const std::string& path) {
  ASSIGN_OR_RETURN(const DirFd target, sys::MakeDirsInside(root, path, 0755));
  return sys::AttachMount(mount, target.get(), path);
}

// What is ignored survives execve: whoever started this process may have left some.
void HeedAllSignals() {
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    struct sigaction action{};
    // glibc refuses its two internal signals; nobody can have changed those through glibc either.
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    (void)::signal(signal, SIG_DFL);
  }
}

// What survives fork and execve and whoever started this process may have changed, once here instead of in each child.
void ResetInherited() {
  HeedAllSignals();
  ::personality(PER_LINUX);
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
}

}  // namespace

Result<LaunchContext> MakeLaunchContext() {
  ResetInherited();
  LaunchContext context;
  ASSIGN_OR_RETURN(MountFd proc, NewProcfs());
  // As a directory: a mount descriptor is O_PATH and good for *at calls.
  context.proc = DirFd(proc.Release());
  ASSIGN_OR_RETURN(context.null, sys::OpenAt(AT_FDCWD, "/dev/null", O_RDWR));
  ASSIGN_OR_RETURN(context.facts, sys::ProbeHost());
  return context;
}

Result<void> EnterLauncherMountNamespace(std::span<const std::string> visible) {
  if (::unshare(CLONE_NEWNS) != 0) return Error::FromErrno(errno, "unshare mount namespace");
  RETURN_IF_ERROR(sys::MakeMountsPrivate());
  std::vector<MountFd> trees;
  for (const std::string& path : visible) {
    ASSIGN_OR_RETURN(MountFd tree, sys::CloneTree(AT_FDCWD, path, true));
    trees.push_back(std::move(tree));
  }
  ASSIGN_OR_RETURN(const MountFd null, sys::CloneTree(AT_FDCWD, "/dev/null", false));
  ASSIGN_OR_RETURN(const MountFd root, NewEmptyRoot());
  RETURN_IF_ERROR(sys::AttachMountAt(root.get(), AT_FDCWD, "/", "/"));
  for (size_t i = 0; i < trees.size(); ++i) {
    RETURN_IF_ERROR(AttachBelow(root.get(), trees[i].get(), visible[i]));
  }
  ASSIGN_OR_RETURN(const UniqueFd null_target, MountTarget(root.get(), "/dev/null", false));
  RETURN_IF_ERROR(sys::AttachMount(null.get(), null_target.get(), "/dev/null"));
  ASSIGN_OR_RETURN(const MountFd proc, NewProcfs());
  RETURN_IF_ERROR(AttachBelow(root.get(), proc.get(), "/proc"));
  RETURN_IF_ERROR(sys::SetMountAttributes(root.get(), {.read_only = true}, false));
  return sys::PivotInto(root.get());
}

}  // namespace holdfast::runtime
