// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/nfs_mounter.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "agent/base/bounded_program.h"
#include "agent/base/program_orphans.h"
#include "agent/volume/mount_point.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr mode_t kNfsDirMode = 0750;
// A mount that a killed program had begun can lie below the one of the next.
constexpr int kMostMounts = 8;
// A process that ends makes another call to the server when one has failed. Whoever is killed meanwhile has to wait for the
// thread that looks after it.
constexpr std::chrono::seconds kNextCall{5};

// What goes before the colon of mount's source.
std::string NfsHost(const std::string& server) {
  return server.find(':') == std::string::npos ? server : StrCat("[", server, "]");
}

// In the order of a kubelet: sorted, each once.
std::string OptionsOf(const NfsSource& source) {
  std::set<std::string> options(source.options.begin(), source.options.end());
  if (source.read_only) options.insert("ro");
  return Join(options, ",");
}

std::vector<std::string> MountArguments(const NfsSource& source, const std::string& path) {
  std::vector<std::string> arguments = {"-t", "nfs"};
  if (const std::string options = OptionsOf(source); !options.empty()) {
    arguments.insert(arguments.end(), {"-o", options});
  }
  arguments.insert(arguments.end(), {StrCat(NfsHost(source.server), ":", source.path), path});
  return arguments;
}

// As a kubelet tells it; one that was killed has no exit status.
Error MountFailed(const std::string& how, const std::string& program,
                  const std::vector<std::string>& arguments, const std::string& output) {
  return Unavailable(StrCat("mount failed: ", how, "\nMounting command: ", program,
                            "\nMounting arguments: ", Join(arguments, " "), "\nOutput: ", output));
}

}  // namespace

Result<std::unique_ptr<NfsMounter>> NfsMounter::Make(NfsPrograms programs) {
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  return std::unique_ptr<NfsMounter>(new NfsMounter(std::move(programs), std::move(stop)));
}

// What a killed agent was mounting could come to lie where this one has looked already. Before any program of this one,
// which would be taken for one of the former's.
Result<void> NfsMounter::EndFormer() {
  const std::lock_guard lock(mutex_);
  if (!former_ended_) former_ended_ = EndOrphans(programs_.owner);
  if (former_ended_) return {};
  return Unavailable("a mount that a former agent began does not end although it was killed");
}

BoundedProgram NfsMounter::Program(const std::string& command,
                                   std::vector<std::string> args) const {
  BoundedProgram program;
  program.command = command;
  program.args = std::move(args);
  program.owner = programs_.owner;
  return program;
}

Result<void> NfsMounter::Mount(const NfsSource& source, const std::string& path,
                               const std::atomic<bool>& cancelled) {
  RETURN_IF_ERROR(EndFormer());
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  // mount(8) would take it for an option.
  if (source.server.starts_with('-')) {
    return InvalidArgument(StrCat("server \"", source.server, "\": no name of a host"));
  }
  if (!sys::ExistsAt(AT_FDCWD, programs_.helper)) {
    return NotFound(StrCat("mount failed: ", programs_.helper,
                           " is not there: install the package nfs-common on this node"));
  }
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, path, kNfsDirMode));
  HOLDFAST_PAUSE_POINT("agent.volume.nfs_directory_made");
  auto done = RunMount(source, path, cancelled);
  HOLDFAST_PAUSE_POINT("agent.volume.nfs_mounted");
  if (done) return {};
  // Whatever the program said. What of this fails is found when the pod's volumes are taken away.
  (void)Unmount(path);
  return done;
}

Result<void> NfsMounter::RunMount(const NfsSource& source, const std::string& path,
                                  const std::atomic<bool>& cancelled) {
  const BoundedProgram program = Program(programs_.mount, MountArguments(source, path));
  const ProgramLimits limits{.time = programs_.mounted, .cancelled = &cancelled};
  const auto end = RunToItsEnd(program, stop_, limits);
  if (!end) {
    return MountFailed(end.error().message(), programs_.mount, program.args, "");
  }
  if (const int code = end->status.ShellCode(); code != 0) {
    return MountFailed(StrCat("exit status ", code), programs_.mount, program.args,
                       end->output + end->errors);
  }
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  return MountFailed("nothing is mounted", programs_.mount, program.args,
                     end->output + end->errors);
}

Result<void> NfsMounter::Unmount(const std::string& path) {
  RETURN_IF_ERROR(EndFormer());
  RETURN_IF_ERROR(UnmountAll(path));
  {
    const std::lock_guard lock(mutex_);
    waiting_.erase(path);
  }
  HOLDFAST_PAUSE_POINT("agent.volume.nfs_unmounted");
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
  return Error::FromErrno(errno, StrCat("rmdir ", path));
}

// The call takes the mount off the tree and then may wait for the server, to write what is left to be written. So it is
// the tree that says whether it is done, not the program.
Result<void> NfsMounter::UnmountAll(const std::string& path) {
  const BoundedProgram program =
      Program(programs_.umount, {"--lazy", "--internal-only", "--no-canonicalize", path});
  const ProgramLimits limits{.time = programs_.unmounted};
  for (int i = 0; i < kMostMounts; ++i) {
    ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
    if (!mounted) return {};
    const auto done = RunBounded(program, stop_, limits);
    ASSIGN_OR_RETURN(const bool still, IsMountPoint(path));
    if (still && !done) return Error(done.error()).Wrap(StrCat("umount ", path));
  }
  return Conflict(StrCat("umount ", path, ": there is always another mount"));
}

// MNT_FORCE ends the calls that are under way to this server, also those of other pods, which wait as vainly.
bool NfsMounter::GiveUpWaiting(const std::string& path) {
  if (!EndFormer()) return false;  // the next call tries again
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    auto& due = waiting_.try_emplace(path, now + programs_.patience).first->second;
    if (now < due) return false;
    due = now + kNextCall;
  }
  const ProgramLimits limits{.time = programs_.given_up};
  if (RunBounded(StatOf(path), stop_, limits)) return false;
  // Held, because it would be unmounted, and a process that ends makes one call after the other: so it is busy, which
  // `umount` tells after the calls have ended.
  const auto held = sys::OpenAt(AT_FDCWD, path, O_PATH | O_DIRECTORY);
  if (!held) return false;
  const BoundedProgram program =
      Program(programs_.umount, {"--force", "--internal-only", "--no-canonicalize", path});
  (void)RunBounded(program, stop_, limits);
  return true;
}

// A file system's numbers are never kept: its server is asked.
BoundedProgram NfsMounter::StatOf(const std::string& path) const {
  return Program(programs_.stat, {"--file-system", "--format=%T", path});
}

Result<void> NfsMounter::Answers(const std::string& path, const std::atomic<bool>& cancelled) {
  RETURN_IF_ERROR(EndFormer());
  const ProgramLimits limits{.time = programs_.answered, .cancelled = &cancelled};
  auto answered = RunBounded(StatOf(path), stop_, limits);
  if (answered) return {};
  return std::move(answered.error()).Wrap(StrCat("the NFS server of ", path, " does not answer"));
}

}  // namespace holdfast::agent
