// SPDX-License-Identifier: Apache-2.0
// Standard streams. A terminal is a pty of the container's own devpts; its peer is opened through
// the master (TIOCGPTPEER), never by a name that somebody in the container could have replaced.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"
#include "runtime/launch/target.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

namespace holdfast::runtime {
namespace {

Result<UniqueFd> OpenMultiplexer(int root) {
  ASSIGN_OR_RETURN(UniqueFd path, sys::OpenInside(root, "dev/pts/ptmx", O_PATH | O_NOFOLLOW, 0,
                                                  sys::Resolve::kBeneath));
  struct stat st{};
  struct statfs fs{};
  if (::fstat(path.get(), &st) != 0 || ::fstatfs(path.get(), &fs) != 0) {
    return Error::FromErrno(errno, "stat /dev/pts/ptmx");
  }
  if (fs.f_type != DEVPTS_SUPER_MAGIC || st.st_rdev != ::makedev(5, 2)) {
    return Error(Code::kPermissionDenied, "/dev/pts/ptmx: not the pty multiplexer");
  }
  return sys::OpenInside(root, "dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW, 0,
                         sys::Resolve::kBeneath);
}

Result<void> OpenTerminalBelow(Child& child, int root, const model::ProcessPlan& plan) {
  ASSIGN_OR_RETURN(const UniqueFd master, OpenMultiplexer(root));
  int unlock = 0;
  if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0) return Error::FromErrno(errno, "TIOCSPTLCK");
  child.terminal = ::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (child.terminal < 0) return Error::FromErrno(errno, "TIOCGPTPEER");
  winsize size{};
  size.ws_row = plan.stdio.rows;
  size.ws_col = plan.stdio.columns;
  if (::ioctl(child.terminal, TIOCSWINSZ, &size) != 0) {
    return Error::FromErrno(errno, "TIOCSWINSZ");
  }
  const int fds[] = {master.get()};
  RETURN_IF_ERROR(ReportDescriptors(child.socket(), ReportKind::kTerminal, "t", fds));
  if (!AwaitGo(child.socket())) return Unavailable("terminal: the launcher is gone");
  return {};
}

// Programs open /dev/stdout again, so the user must own what lies behind it. Not possible (a file
// of somebody else, read-only) is what happens with a shell's redirection too.
void GiveStream(int fd, uint32_t uid) {
  struct stat st{};
  if (::fstat(fd, &st) != 0 || st.st_uid == uid) return;
  if (S_ISCHR(st.st_mode) && st.st_rdev == ::makedev(1, 3)) return;
  [[maybe_unused]] const int ignored = ::fchown(fd, uid, static_cast<gid_t>(-1));
}

// A number above the three: otherwise putting one could overwrite the source of the next.
Result<int> AboveStreams(int fd) {
  if (fd > STDERR_FILENO) return fd;
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (copy < 0) return Error::FromErrno(errno, "fcntl F_DUPFD_CLOEXEC");
  return copy;
}

Result<void> PutStream(int source, int number) {
  if (::dup2(source, number) < 0) return Error::FromErrno(errno, StrCat("dup2 to ", number));
  return {};
}

}  // namespace

Result<void> OpenTerminal(Child& child, const model::ExecPlan& plan) {
  if (!plan.process.stdio.tty) return {};
  ASSIGN_OR_RETURN(const DirFd root, sys::OpenDir("/"));
  return OpenTerminalBelow(child, root.get(), plan.process);
}

Result<void> BindConsole(Child& child, const model::LaunchPlan& plan) {
  if (!plan.process.stdio.tty) return {};
  RETURN_IF_ERROR(OpenTerminalBelow(child, child.root, plan.process));
  ASSIGN_OR_RETURN(const MountFd console, sys::CloneTree(child.terminal, "", false));
  ASSIGN_OR_RETURN(const UniqueFd target, MountTarget(child.root, "/dev/console", false));
  return sys::AttachMount(console.get(), target.get(), "/dev/console");
}

Result<void> ArrangeStreams(Child& child, const model::ProcessPlan& plan) {
  const model::FdIndex wanted[3] = {plan.stdio.in, plan.stdio.out, plan.stdio.err};
  int sources[3];
  for (size_t i = 0; i < 3; ++i) {
    const int fd = plan.stdio.tty ? child.terminal : child.Fd(wanted[i]);
    ASSIGN_OR_RETURN(sources[i], AboveStreams(fd < 0 ? child.null() : fd));
  }
  for (int number = 0; number < 3; ++number) {
    RETURN_IF_ERROR(PutStream(sources[number], number));
    GiveStream(number, plan.uid);
  }
  return {};
}

Result<void> LeadSession(Child&, const model::ProcessPlan& plan) {
  ::setsid();  // fails only for the leader of a process group, which a fresh child is not
  if (plan.stdio.tty && ::ioctl(0, TIOCSCTTY, 0) != 0) return Error::FromErrno(errno, "TIOCSCTTY");
  return {};
}

}  // namespace holdfast::runtime
