// SPDX-License-Identifier: Apache-2.0
// The overlay root, by the ladder of docs/launch.md: each rung is used where the kernel has it.
//   6.13   every layer by descriptor
//   6.7    every layer by name, one option each
//   5.14   all layers in one option, which holds 255 bytes
//          above that, classic mount(2), whose options hold a page
// In a user namespace the layers are copies of the mounts with the pod's id map (5.19); the overlay
// itself cannot have one, so what is written lies on disk with the ids that it has on the host.
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
#include "runtime/launch/target.h"

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

Result<MountFd> ByDescriptors(const Parts& parts, const std::string& label) {
  ASSIGN_OR_RETURN(const UniqueFd context, sys::OpenFilesystem("overlay"));
  for (const UniqueFd& layer : parts.layers) {
    RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "lowerdir+", layer.get()));
  }
  RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "upperdir", parts.upper.get()));
  RETURN_IF_ERROR(sys::SetDescriptor(context.get(), "workdir", parts.work.get()));
  RETURN_IF_ERROR(SetLabelOfAll(context.get(), label));
  return sys::CreateMount(context.get(), {});
}

// With the working directory in /proc/self/fd.
Result<MountFd> ByNames(const Parts& parts, const std::string& label, bool one_by_one) {
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
  RETURN_IF_ERROR(SetLabelOfAll(context.get(), label));
  return sys::CreateMount(context.get(), {});
}

// Mounted on <scratch>/root of the child's own mount namespace, hence nowhere else; the working
// directory is in /proc/self/fd.
Result<MountFd> ByClassicMount(const Parts& parts, const std::string& label) {
  const std::string data = StrCat("lowerdir=", JoinLayers(parts), ",upperdir=", Name(parts.upper),
                                  ",workdir=", Name(parts.work), LabelOption(label));
  if (data.size() > kMaxMountDataBytes) {
    return Unsupported(StrCat("mount overlay: ", parts.layers.size(),
                              " layers do not fit into the options of mount(2) on this kernel"));
  }
  ASSIGN_OR_RETURN(const UniqueFd target, OpenScratchDir(parts.scratch.get(), "root"));
  if (::mount("overlay", Name(target).c_str(), "overlay", 0, data.c_str()) != 0) {
    return Error::FromErrno(errno, "mount overlay");
  }
  // Opened again, the name leads onto the mount.
  ASSIGN_OR_RETURN(const UniqueFd mounted, OpenScratchDir(parts.scratch.get(), "root"));
  return sys::CloneTree(mounted.get(), "", false);
}

Result<void> EnterDescriptorDirectory(const Child& child) {
  ASSIGN_OR_RETURN(const UniqueFd fds, sys::OpenAt(child.proc(), "self/fd", O_PATH | O_DIRECTORY));
  if (::fchdir(fds.get()) != 0) return Error::FromErrno(errno, "fchdir /proc/self/fd");
  return {};
}

Result<MountFd> MountOverlay(const Child& child, const Parts& parts, const std::string& label) {
  if (child.facts().overlay_lower_fd) return ByDescriptors(parts, label);
  RETURN_IF_ERROR(EnterDescriptorDirectory(child));
  const bool one_by_one = child.facts().overlay_lower_add;
  if (!one_by_one && JoinLayers(parts).size() > kMaxOptionBytes) {
    return ByClassicMount(parts, label);
  }
  return ByNames(parts, label, one_by_one);
}

Error ExplainUnmappable(Error error) {
  if (error.sys_errno() != EINVAL && error.sys_errno() != EOPNOTSUPP) return error;
  return Unsupported(StrCat(error.message(),
                            ": the file system of the image store cannot be mounted with an id map "
                            "on this kernel, which hostUsers: false needs"));
}

// Onto "/" of the child's own mount namespace, where pivot_root wants it.
Result<void> AttachRoot(int mount) { return sys::AttachMountAt(mount, AT_FDCWD, "/", "/"); }

// Every layer becomes a mount of its own with the id map. They are attached below an empty root of
// this mount namespace, which is returned, since only Linux 6.15 takes detached ones as layers.
Result<MountFd> MapLayers(int user_namespace, Parts& parts) {
  ASSIGN_OR_RETURN(MountFd shelf, NewEmptyRoot());
  RETURN_IF_ERROR(AttachRoot(shelf.get()));
  for (size_t i = 0; i < parts.layers.size(); ++i) {
    ASSIGN_OR_RETURN(const MountFd mapped, sys::CloneTree(parts.layers[i].get(), "", false));
    if (auto done = sys::SetIdMap(mapped.get(), user_namespace, false); !done) {
      return ExplainUnmappable(std::move(done.error()));
    }
    const std::string name = StrCat("layer", i);
    ASSIGN_OR_RETURN(const UniqueFd target, OpenScratchDir(shelf.get(), name.c_str()));
    RETURN_IF_ERROR(sys::AttachMount(mapped.get(), target.get(), name));
    ASSIGN_OR_RETURN(parts.layers[i], OpenScratchDir(shelf.get(), name.c_str()));
  }
  return shelf;
}

}  // namespace

Result<void> PrepareMappedRoot(Child& child, const model::LaunchPlan& plan) {
  ASSIGN_OR_RETURN(Parts parts, OpenParts(plan.root));
  // The root directory of the container is that of `upper`.
  if (::fchownat(parts.scratch.get(), "upper", plan.root.owner, plan.root.owner,
                 AT_SYMLINK_NOFOLLOW) != 0) {
    return Error::FromErrno(errno, "chown upper");
  }
  ASSIGN_OR_RETURN(const MountFd shelf, MapLayers(child.Fd(plan.namespaces.user), parts));
  auto mount = MountOverlay(child, parts, plan.selinux);
  if (!mount) {
    return std::move(mount.error()).Wrap("layers with an id map, which need Linux 5.19");
  }
  child.root = KeepOpen(std::move(*mount));
  // The overlay has copies of the layers. Left in the way, it would be locked onto the old root
  // once the mount namespace is copied into the user namespace, and the old root could not be left.
  return sys::DetachMountAt(shelf.get());
}

Result<void> MountRoot(Child& child, const model::LaunchPlan& plan) {
  if (child.root < 0) {
    ASSIGN_OR_RETURN(const Parts parts, OpenParts(plan.root));
    ASSIGN_OR_RETURN(MountFd mount, MountOverlay(child, parts, plan.selinux));
    child.root = KeepOpen(std::move(mount));
  }
  return AttachRoot(child.root);
}

Result<void> SealRoot(Child& child, const model::LaunchPlan& plan) {
  if (!plan.root.read_only) return {};
  return sys::SetMountAttributes(child.root, {.read_only = true}, false);
}

Result<void> EnterRoot(Child& child, const model::LaunchPlan& plan) {
  RETURN_IF_ERROR(sys::PivotInto(child.root));
  child.in_working_directory = plan.process.cwd == "/";
  return {};
}

}  // namespace holdfast::runtime
