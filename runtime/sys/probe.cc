// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/process.h"

namespace holdfast::sys {
namespace {

constexpr int kProbeExitCode = 7;

// A child with `flags` that ends at once; its pidfd, reaped. An error is the kernel's "no".
Result<PidFd> CloneAndReap(uint64_t flags) {
  ASSIGN_OR_RETURN(Cloned child, Clone(flags));
  if (child.pid == 0) ::_exit(kProbeExitCode);
  for (;;) {
    ASSIGN_OR_RETURN(const auto exit, ReapExit(child.pidfd.get()));
    if (exit) return std::move(child.pidfd);
    pollfd event{child.pidfd.get(), POLLIN, 0};
    (void)::poll(&event, 1, -1);  // a child that only calls _exit(2); EINTR asks again
  }
}

Result<void> ProbeMounts(HostFacts& facts) {
  ASSIGN_OR_RETURN(UniqueFd tmpfs, OpenFilesystem("tmpfs"));
  ASSIGN_OR_RETURN(MountFd mount, CreateMount(tmpfs.get(), {}));
  // The floor is 5.14; mount_setattr (5.12) is the newest call without a fall-back.
  MountAttributes read_only;
  read_only.read_only = true;
  RETURN_IF_ERROR(SetMountAttributes(mount.get(), read_only, true));
  facts.open_tree_detached = CloneTree(mount.get(), "", false).has_value();

  ASSIGN_OR_RETURN(UniqueFd overlay, OpenFilesystem("overlay"));
  ASSIGN_OR_RETURN(DirFd root, OpenDir("/"));
  facts.overlay_lower_fd = SetDescriptor(overlay.get(), "lowerdir+", root.get()).has_value();
  ASSIGN_OR_RETURN(overlay, OpenFilesystem("overlay"));
  facts.overlay_lower_add = SetOption(overlay.get(), "lowerdir+", "/").has_value();
  // An overlay that still parses its options at mount time takes any name here.
  ASSIGN_OR_RETURN(overlay, OpenFilesystem("overlay"));
  if (SetOption(overlay.get(), "no_such_option", "/")) facts.overlay_lower_add = false;
  return {};
}

Result<void> ProbeProcesses(HostFacts& facts) {
  ASSIGN_OR_RETURN(const PidFd ended, CloneAndReap(0));
  const auto status = ExitFromPidFd(ended.get());
  facts.pidfd_info_exit = status && *status && (*status)->code == kProbeExitCode;
  facts.time_namespace = CloneAndReap(CLONE_NEWTIME).has_value();
  facts.user_namespace = CloneAndReap(CLONE_NEWUSER).has_value();
  return {};
}

bool HasEffectiveCapability(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

uint32_t LastCapability() {
  int last = CAP_LAST_CAP;
  while (last < 63 && ::prctl(PR_CAPBSET_READ, last + 1) >= 0) ++last;
  while (last > 0 && ::prctl(PR_CAPBSET_READ, last) < 0) --last;
  return static_cast<uint32_t>(last);
}

uint64_t BoundingSet(uint32_t last) {
  uint64_t set = 0;
  for (uint32_t capability = 0; capability <= last; ++capability) {
    if (::prctl(PR_CAPBSET_READ, capability) == 1) set |= 1ull << capability;
  }
  return set;
}

}  // namespace

Result<HostFacts> ProbeHost() {
  HostFacts facts;
  RETURN_IF_ERROR(WithContext(ProbeMounts(facts), "probe mounts"));
  RETURN_IF_ERROR(WithContext(ProbeProcesses(facts), "probe processes"));
  facts.cap_sys_resource = HasEffectiveCapability(CAP_SYS_RESOURCE);
  facts.last_capability = LastCapability();
  facts.capabilities = BoundingSet(facts.last_capability);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return Error::FromErrno(errno, "getrlimit");
  facts.max_open_files = files.rlim_max;
  return facts;
}

uint32_t LandlockAbi() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? static_cast<uint32_t>(abi) : 0;
}

}  // namespace holdfast::sys
