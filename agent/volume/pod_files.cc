// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/pod_files.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/volume/mount_point.h"
#include "agent/volume/tmpfs.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr mode_t kPodDirMode = 0711;
constexpr off_t kMessageBytes = 4096;  // what is read of a termination message at most

Result<void> MountPodFiles(const std::string& path) {
  RETURN_IF_ERROR(MountTmpfs("holdfast-pod", path, MS_NOSUID | MS_NODEV | MS_NOEXEC,
                             StrCat("mode=0711,size=", kPodFilesBytes)));
  HOLDFAST_PAUSE_POINT("agent.files.mounted");
  return {};
}

}  // namespace

Result<void> OpenPodFilesRoot(const model::Instance& instance) {
  const std::string path = instance.PodFilesDir();
  ASSIGN_OR_RETURN(const DirFd dir, sys::MakeDirs(AT_FDCWD, path, kPodDirMode));
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  // Private before it is attached: at no moment does it propagate.
  ASSIGN_OR_RETURN(const MountFd copy, sys::CloneTree(dir.get(), "", false));
  RETURN_IF_ERROR(sys::SetMountAttributes(
      copy.get(), {.propagation = sys::MountAttributes::Propagation::kPrivate}, false));
  return sys::AttachMount(copy.get(), dir.get(), path);
}

Result<void> RemovePodFilesRoot(const model::Instance& instance) {
  const std::string path = instance.PodFilesDir();
  RETURN_IF_ERROR(UnmountIfMounted(path));
  return sys::RemoveTreeAt(AT_FDCWD, path);
}

Result<void> EnsurePodFiles(const PodPaths& paths) {
  const std::string& path = paths.Files();
  if (::mkdir(path.c_str(), kPodDirMode) != 0 && errno != EEXIST) {
    return Error::FromErrno(errno, StrCat("mkdir ", path));
  }
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  return mounted ? Result<void>() : MountPodFiles(path);
}

Result<void> ReleasePodFiles(const std::string& files) {
  RETURN_IF_ERROR(UnmountIfMounted(files));
  HOLDFAST_PAUSE_POINT("agent.files.unmounted");
  return sys::RemoveTreeAt(AT_FDCWD, files);
}

Result<void> MakeTerminationLog(const std::string& path) {
  ASSIGN_OR_RETURN(UniqueFd file,
                   sys::OpenAt(AT_FDCWD, path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0666));
  if (::fchmod(file.get(), 0666) != 0) return Error::FromErrno(errno, StrCat("chmod ", path));
  // In a pod that has filled its files already a container starts nevertheless; and not every file
  // system can do this.
  (void)::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, kMessageBytes);
  return {};
}

}  // namespace holdfast::agent
