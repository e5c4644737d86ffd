// SPDX-License-Identifier: Apache-2.0
// The overlay root, by the ladder of docs/launch.md: each rung is used where the kernel has it.
//   6.13   every layer by descriptor
//   6.7    every layer by name, one option each
//   5.14   all layers in one option, which holds 255 bytes
//          above that, classic mount(2), whose options hold a page
// Names are those of the open descriptors, "12" relative to /proc/self/fd: short, free of ':' and
// ',', and never resolved twice.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxOptionBytes = 255;
constexpr size_t kMaxMountDataBytes = 4095;

struct Parts {
  UniqueFd scratch;
  std::vector<UniqueFd> layers;  // topmost first, as overlayfs wants them
  UniqueFd upper;
  UniqueFd work;
};

Result<UniqueFd> OpenScratchDir(int scratch, const char* name) {
  if (::mkdirat(scratch, name, 0755) != 0 && errno != EEXIST) {
    return Error::FromErrno(errno, StrCat("mkdir ", name));
  }
  return sys::OpenAt(scratch, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

Result<Parts> OpenParts(const model::RootPlan& plan) {
  Parts parts;
  ASSIGN_OR_RETURN(parts.scratch, sys::OpenAt(AT_FDCWD, plan.scratch, O_PATH | O_DIRECTORY));
  ASSIGN_OR_RETURN(parts.upper, OpenScratchDir(parts.scratch.get(), "upper"));
  ASSIGN_OR_RETURN(parts.work, OpenScratchDir(parts.scratch.get(), "work"));
  parts.layers.reserve(plan.layers.size());
  for (auto layer = plan.layers.rbegin(); layer != plan.layers.rend(); ++layer) {
    ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(AT_FDCWD, *layer, O_PATH | O_DIRECTORY));
    parts.layers.push_back(std::move(fd));
  }
  return parts;
}

std::string Name(const UniqueFd& fd) { return std::to_string(fd.get()); }

std::string JoinLayers(const Parts& parts) {
  std::string joined;
  for (const UniqueFd& layer : parts.layers) {
    if (!joined.empty()) joined += ':';
    joined += Name(layer);
  }
  return joined;
}

Result<MountFd> ByDescriptors(const Parts& parts) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("overlay"));
  for (const UniqueFd& layer : parts.layers) {
    RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "lowerdir+", layer.get()));
  }
  RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "upperdir", parts.upper.get()));
  RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "workdir", parts.work.get()));
  return sys::CreateMount(context.get(), {});
}

// With the working directory in /proc/self/fd.
Result<MountFd> ByNames(const Parts& parts, bool one_by_one) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("overlay"));
  if (one_by_one) {
    for (const UniqueFd& layer : parts.layers) {
      RETURN_IF_ERROR(sys::SetOption(context.get(), "lowerdir+", Name(layer)));
    }
  } else {
    RETURN_IF_ERROR(sys::SetOption(context.get(), "lowerdir", JoinLayers(parts)));
  }
  RETURN_IF_ERROR(sys::SetOption(context.get(), "upperdir", Name(parts.upper)));
  RETURN_IF_ERROR(sys::SetOption(context.get(), "workdir", Name(parts.work)));
  return sys::CreateMount(context.get(), {});
}

// Mounted on <scratch>/root of the child's own mount namespace, hence nowhere else; the working
// directory is in /proc/self/fd.
Result<UniqueFd> ByClassicMount(const Parts& parts) {
  const std::string data = StrCat("lowerdir=", JoinLayers(parts), ",upperdir=", Name(parts.upper),
                                  ",workdir=", Name(parts.work));
  if (data.size() > kMaxMountDataBytes) {
    return Unsupported(StrCat("mount overlay: ", parts.layers.size(),
                              " layers do not fit into the options of mount(2) on this kernel"));
  }
  ASSIGN_OR_RETURN(const UniqueFd target, OpenScratchDir(parts.scratch.get(), "root"));
  if (::mount("overlay", Name(target).c_str(), "overlay", 0, data.c_str()) != 0) {
    return Error::FromErrno(errno, "mount overlay");
  }
  // Opened again, the name leads onto the mount.
  return sys::OpenAt(parts.scratch.get(), "root", O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

Result<void> EnterDescriptorDirectory(const Child& child) {
  ASSIGN_OR_RETURN(const UniqueFd fds, sys::OpenAt(child.proc(), "self/fd", O_PATH | O_DIRECTORY));
  if (::fchdir(fds.get()) != 0) return Error::FromErrno(errno, "fchdir /proc/self/fd");
  return {};
}

// Onto "/" of the child's own mount namespace, where pivot_root wants it.
Result<void> AttachRoot(int mount) {
  ASSIGN_OR_RETURN(const DirFd old_root, sys::OpenDir("/"));
  return sys::AttachMount(mount, old_root.get(), "/");
}

}  // namespace

Result<void> MountRoot(Child& child, const model::LaunchPlan& plan) {
  ASSIGN_OR_RETURN(const Parts parts, OpenParts(plan.root));
  MountFd mount;
  if (child.facts().overlay_lower_fd) {
    ASSIGN_OR_RETURN(mount, ByDescriptors(parts));
  } else {
    RETURN_IF_ERROR(EnterDescriptorDirectory(child));
    const bool one_by_one = child.facts().overlay_lower_add;
    if (!one_by_one && JoinLayers(parts).size() > kMaxOptionBytes) {
      ASSIGN_OR_RETURN(child.root, ByClassicMount(parts));
      return {};
    }
    ASSIGN_OR_RETURN(mount, ByNames(parts, one_by_one));
  }
  RETURN_IF_ERROR(AttachRoot(mount.get()));
  child.root = UniqueFd(mount.Release());
  return {};
}

Result<void> SealRoot(Child& child, const model::LaunchPlan& plan) {
  if (!plan.root.read_only) return {};
  return sys::SetMountAttributes(child.root.get(), {.read_only = true}, false);
}

Result<void> EnterRoot(Child& child, const model::LaunchPlan&) {
  RETURN_IF_ERROR(sys::PivotInto(child.root.get()));
  child.root.Reset();
  return {};
}

}  // namespace holdfast::runtime
