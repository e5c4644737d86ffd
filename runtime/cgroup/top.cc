// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/top.h"

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/cgroup/cpuset.h"
#include "runtime/cgroup/formulas.h"
#include "runtime/cgroup/ownership.h"

namespace holdfast::runtime {
namespace {

// The directory that `parent` names in each hierarchy.
Result<Cgroup> OpenParent(const CgroupLayout& layout, const std::string& parent) {
  Cgroup cgroup{parent, {}};
  for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
    auto dir = sys::OpenDir(hierarchy.mount_point + parent);
    if (!dir) {
      return std::move(dir.error())
          .Wrap(StrCat("cgroup parent ", parent, " in ", hierarchy.mount_point));
    }
    cgroup.dirs.push_back(std::move(*dir));
  }
  return cgroup;
}

// The parent may be missing: in some hierarchies of v1, since systemd delegates one, and with v2
// because systemd prunes the cgroup of an active unit without a process (252 and 257 do).
Result<void> MakeParents(const CgroupLayout& layout, const std::string& parent) {
  if (parent.empty()) return {};
  for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
    ASSIGN_OR_RETURN(const DirFd mount, sys::OpenDir(hierarchy.mount_point));
    RETURN_IF_ERROR(sys::MakeDirs(mount.get(), parent.substr(1), 0755));
    RETURN_IF_ERROR(FillCpusets(mount.get(), parent.substr(1)));
  }
  return {};
}

// The same directories through a detached mount of each that begins there. What is opened below
// them goes to the launcher with a plan, and from none of it does ".." lead further up than to
// `root`.
Result<Cgroup> CutOff(const Cgroup& root) {
  Cgroup cut{root.path, {}};
  for (const DirFd& dir : root.dirs) {
    ASSIGN_OR_RETURN(const MountFd mount, sys::CloneTree(dir.get(), "", false));
    ASSIGN_OR_RETURN(DirFd top, sys::OpenDirAt(mount.get(), "."));
    cut.dirs.push_back(std::move(top));  // it keeps the mount
  }
  return cut;
}

std::optional<int64_t> IfLimited(int64_t value) {
  return value == CgroupLimits::kUnlimited ? std::nullopt : std::optional<int64_t>(value);
}

}  // namespace

const Cgroup& TreeTop::Dirs::Of(model::QosClass qos) const {
  switch (qos) {
    case model::QosClass::kBurstable:
      return burstable;
    case model::QosClass::kBestEffort:
      return best_effort;
    case model::QosClass::kGuaranteed:
      break;
  }
  return root;
}

Result<void> TreeTop::Make() {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(dirs_, Open());
  return {};
}

std::shared_ptr<const TreeTop::Dirs> TreeTop::Get() const {
  const std::lock_guard lock(mutex_);
  return dirs_;
}

Result<std::shared_ptr<const TreeTop::Dirs>> TreeTop::MakeAnew(
    const std::shared_ptr<const Dirs>& gone) {
  const std::lock_guard lock(mutex_);
  if (dirs_ != gone) return dirs_;
  ASSIGN_OR_RETURN(std::shared_ptr<const Dirs> made, Open());
  RETURN_IF_ERROR(ApplyAllocatable(*made));
  if (requests_) RETURN_IF_ERROR(ApplyRequests(*made, *requests_));
  dirs_ = std::move(made);
  return dirs_;
}

Result<void> TreeTop::Limit() { return ApplyAllocatable(*Get()); }

Result<void> TreeTop::SetRequests(const ClassRequests& requests) {
  const std::lock_guard lock(mutex_);
  if (requests_ == requests) return {};
  auto applied = ApplyRequests(*dirs_, requests);
  if (!applied && applied.error().sys_errno() != ENOENT) return applied;
  requests_ = requests;
  return {};
}

Result<void> TreeTop::Remove() {
  const std::shared_ptr<const Dirs> dirs = Get();
  for (const model::QosClass qos : {model::QosClass::kBurstable, model::QosClass::kBestEffort}) {
    RETURN_IF_ERROR(RemoveEmptyChild(dirs->root, QosDirName(options_.naming, qos)));
  }
  ASSIGN_OR_RETURN(const Cgroup parent, OpenParent(backend_.layout(), options_.parent));
  return RemoveEmptyChild(parent, PodsRootName(options_.naming));
}

Result<std::shared_ptr<const TreeTop::Dirs>> TreeTop::Open() const {
  auto dirs = std::make_shared<Dirs>();
  ASSIGN_OR_RETURN(dirs->root, OpenRoot());
  ASSIGN_OR_RETURN(dirs->burstable, OpenClass(dirs->root, model::QosClass::kBurstable));
  ASSIGN_OR_RETURN(dirs->best_effort, OpenClass(dirs->root, model::QosClass::kBestEffort));
  CgroupLimits lowest;
  lowest.cpu_shares = kMinCpuShares;
  RETURN_IF_ERROR(backend_.Apply(dirs->best_effort, lowest));
  return dirs;
}

Result<Cgroup> TreeTop::OpenRoot() const {
  const std::string& parent_path = options_.parent;
  if (!parent_path.empty() && !parent_path.starts_with('/')) {
    return InvalidArgument(StrCat("cgroup parent \"", parent_path, "\" does not start with /"));
  }
  RETURN_IF_ERROR(MakeParents(backend_.layout(), parent_path));
  ASSIGN_OR_RETURN(const Cgroup parent, OpenParent(backend_.layout(), parent_path));
  const std::string name = PodsRootName(options_.naming);
  RETURN_IF_ERROR(CheckNotForeign(parent, name, options_.owner));
  RETURN_IF_ERROR(backend_.EnableForChildren(parent));
  ASSIGN_OR_RETURN(const MadeCgroup made, MakeChild(parent, name));
  ASSIGN_OR_RETURN(Cgroup root, CutOff(made.cgroup));
  RETURN_IF_ERROR(FillCpusetsForChildren(parent, root));
  HOLDFAST_PAUSE_POINT("cgroup.root_made");
  RETURN_IF_ERROR(MarkAsOurs(root, options_.owner));
  RETURN_IF_ERROR(backend_.EnableForChildren(root));
  return root;
}

Result<Cgroup> TreeTop::OpenClass(const Cgroup& root, model::QosClass qos) const {
  ASSIGN_OR_RETURN(MadeCgroup made, MakeChild(root, QosDirName(options_.naming, qos)));
  RETURN_IF_ERROR(backend_.EnableForChildren(made.cgroup));
  return std::move(made.cgroup);
}

Result<void> TreeTop::ApplyAllocatable(const Dirs& dirs) const {
  CgroupLimits limits;
  const NodeAllocatable& node = options_.allocatable;
  if (node.cpu_milli != CgroupLimits::kUnlimited) {
    limits.cpu_shares = CpuSharesFromMilli(node.cpu_milli);
  }
  limits.memory_bytes = IfLimited(node.memory_bytes);
  limits.pids = IfLimited(node.pids);
  return WithContext(backend_.Apply(dirs.root, limits), "limits of the kubepods cgroup");
}

Result<void> TreeTop::ApplyRequests(const Dirs& dirs, const ClassRequests& requests) const {
  CgroupLimits burstable;
  burstable.cpu_shares = CpuSharesFromMilli(requests.burstable_cpu_milli);
  burstable.memory_low = requests.burstable_memory_low;
  RETURN_IF_ERROR(backend_.Apply(dirs.burstable, burstable));
  // What is above a protected cgroup has to cover it.
  CgroupLimits all;
  all.memory_min = requests.guaranteed_memory_min + requests.burstable_memory_low;
  return backend_.Apply(dirs.root, all);
}

}  // namespace holdfast::runtime
