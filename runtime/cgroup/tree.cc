// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/tree.h"

#include <algorithm>
#include <array>
#include <iterator>
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

constexpr std::array<model::QosClass, 3> kQosClasses = {
    model::QosClass::kGuaranteed, model::QosClass::kBurstable, model::QosClass::kBestEffort};

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

CgroupLimits LimitsFromResources(const model::ResourceSpec& resources) {
  CgroupLimits limits;
  limits.cpu_shares = CpuSharesFromMilli(resources.cpu_milli_request);
  if (resources.cpu_milli_limit) {
    limits.cpu_quota_us = static_cast<int64_t>(CpuQuotaFromMilli(*resources.cpu_milli_limit));
  }
  limits.memory_bytes = resources.memory_limit_bytes;
  if (resources.memory_min_bytes > 0) limits.memory_min = resources.memory_min_bytes;
  if (resources.memory_low_bytes > 0) limits.memory_low = resources.memory_low_bytes;
  limits.memory_high = resources.memory_high_bytes;
  limits.pids = resources.pids_limit;
  return limits;
}

void LiftProtection(CgroupLimits& limits) {
  limits.memory_min = limits.memory_min.value_or(0);
  limits.memory_low = limits.memory_low.value_or(0);
  limits.memory_high = limits.memory_high.value_or(CgroupLimits::kUnlimited);
}

Result<std::unique_ptr<CgroupTree>> CgroupTree::Open(CgroupLayout layout,
                                                     CgroupTreeOptions options) {
  auto tree = std::unique_ptr<CgroupTree>(
      new CgroupTree(MakeCgroupBackend(std::move(layout)), std::move(options)));
  RETURN_IF_ERROR(tree->OpenRoot());
  RETURN_IF_ERROR(tree->OpenQosDirs());
  return tree;
}

Result<void> CgroupTree::OpenRoot() {
  const std::string& parent_path = options_.parent;
  if (!parent_path.empty() && !parent_path.starts_with('/')) {
    return InvalidArgument(StrCat("cgroup parent \"", parent_path, "\" does not start with /"));
  }
  RETURN_IF_ERROR(MakeParents(backend_->layout(), parent_path));
  ASSIGN_OR_RETURN(const Cgroup parent, OpenParent(backend_->layout(), parent_path));
  const std::string name = PodsRootName(options_.naming);
  RETURN_IF_ERROR(CheckNotForeign(parent, name, options_.owner));
  RETURN_IF_ERROR(backend_->EnableForChildren(parent));
  ASSIGN_OR_RETURN(MadeCgroup made, MakeChild(parent, name));
  ASSIGN_OR_RETURN(root_, CutOff(made.cgroup));
  RETURN_IF_ERROR(FillCpusetsForChildren(parent, root_));
  HOLDFAST_PAUSE_POINT("cgroup.root_made");
  RETURN_IF_ERROR(MarkAsOurs(root_, options_.owner));
  ASSIGN_OR_RETURN(huge_page_sizes_, backend_->HugePageSizes(root_));
  return backend_->EnableForChildren(root_);
}

Result<void> CgroupTree::LimitRoot() {
  CgroupLimits limits;
  const NodeAllocatable& node = options_.allocatable;
  if (node.cpu_milli != CgroupLimits::kUnlimited) {
    limits.cpu_shares = CpuSharesFromMilli(node.cpu_milli);
  }
  limits.memory_bytes = IfLimited(node.memory_bytes);
  limits.pids = IfLimited(node.pids);
  return WithContext(backend_->Apply(root_, limits), "limits of the kubepods cgroup");
}

Result<void> CgroupTree::RemoveRoot() {
  for (const model::QosClass qos : {model::QosClass::kBurstable, model::QosClass::kBestEffort}) {
    RETURN_IF_ERROR(RemoveEmptyChild(root_, QosDirName(options_.naming, qos)));
  }
  ASSIGN_OR_RETURN(const Cgroup parent, OpenParent(backend_->layout(), options_.parent));
  return RemoveEmptyChild(parent, PodsRootName(options_.naming));
}

Result<void> CgroupTree::OpenQosDirs() {
  for (auto [qos, cgroup] : {std::pair{model::QosClass::kBurstable, &burstable_},
                             std::pair{model::QosClass::kBestEffort, &best_effort_}}) {
    ASSIGN_OR_RETURN(MadeCgroup made, MakeChild(root_, QosDirName(options_.naming, qos)));
    *cgroup = std::move(made.cgroup);
    RETURN_IF_ERROR(backend_->EnableForChildren(*cgroup));
  }
  CgroupLimits lowest;
  lowest.cpu_shares = kMinCpuShares;
  return backend_->Apply(best_effort_, lowest);
}

const Cgroup& CgroupTree::ParentOf(model::QosClass qos) const {
  switch (qos) {
    case model::QosClass::kBurstable:
      return burstable_;
    case model::QosClass::kBestEffort:
      return best_effort_;
    case model::QosClass::kGuaranteed:
      break;
  }
  return root_;
}

CgroupLimits CgroupTree::LimitsOfPod(const model::ResourceSpec& limits) const {
  CgroupLimits wanted = LimitsFromResources(limits);
  wanted.pids = wanted.pids.value_or(options_.pod_pids);
  return wanted;
}

// None of a size that nobody asked for, as a kubelet has it.
std::vector<model::HugePageLimit> CgroupTree::HugePages(const model::ResourceSpec& limits) const {
  std::vector<model::HugePageLimit> all;
  for (const uint64_t size : huge_page_sizes_) {
    const auto asked =
        std::ranges::find(limits.huge_pages, size, &model::HugePageLimit::page_bytes);
    all.push_back({size, asked == limits.huge_pages.end() ? 0 : asked->limit_bytes});
  }
  return all;
}

Result<void> CgroupTree::LimitPodPids(const PodUid& uid, model::QosClass qos,
                                      const model::ResourceSpec& limits) {
  auto pod = OpenPod(uid, qos);
  if (!pod && pod.error().code() == Code::kNotFound) return {};
  if (!pod) return std::move(pod.error());
  CgroupLimits wanted;
  wanted.pids = LimitsOfPod(limits).pids;
  return backend_->Apply(*pod, wanted);
}

Result<std::string> CgroupTree::PidsLimitReached(const PodUid& uid, model::QosClass qos) {
  ASSIGN_OR_RETURN(const Cgroup pod, OpenPod(uid, qos));
  const std::pair<const Cgroup*, const char*> limited[] = {
      {&pod, "the pod has all processes that it may have"},
      {&root_, "all pods together have all processes that they may have"}};
  for (const auto& [cgroup, whose] : limited) {
    ASSIGN_OR_RETURN(const uint64_t limit, backend_->PidsLimit(*cgroup));
    ASSIGN_OR_RETURN(const CgroupUsage usage, backend_->Usage(*cgroup));
    if (usage.pids >= limit) return StrCat(whose, " (", limit, ")");
  }
  return std::string();
}

Result<void> CgroupTree::EnsurePod(const PodUid& uid, model::QosClass qos,
                                   const model::ResourceSpec& limits) {
  ASSIGN_OR_RETURN(MadeCgroup made,
                   MakeChild(ParentOf(qos), PodDirName(options_.naming, qos, uid)));
  HOLDFAST_PAUSE_POINT("cgroup.pod_made");
  CgroupLimits wanted = LimitsOfPod(limits);
  wanted.huge_pages = HugePages(limits);
  if (!made.fresh) {  // what a former call set may have to be lifted
    wanted.cpu_quota_us = wanted.cpu_quota_us.value_or(CgroupLimits::kUnlimited);
    wanted.memory_bytes = wanted.memory_bytes.value_or(CgroupLimits::kUnlimited);
    LiftProtection(wanted);
  }
  RETURN_IF_ERROR(backend_->Apply(made.cgroup, wanted));
  return backend_->EnableForChildren(made.cgroup);
}

Result<Cgroup> CgroupTree::MakeContainer(const PodUid& uid, model::QosClass qos,
                                         const ContainerId& id, const model::ResourceSpec& limits,
                                         bool privileged, std::vector<DeviceRule> devices) {
  ASSIGN_OR_RETURN(PodDirs pod, OpenPodDirs(uid, qos));
  ASSIGN_OR_RETURN(MadeCgroup made, MakeChild(pod.limited, ContainerDirName(options_.naming, id)));
  HOLDFAST_PAUSE_POINT("cgroup.container_made");
  made.cgroup.shared = std::move(pod.shared);
  CgroupLimits wanted = LimitsFromResources(limits);
  wanted.swap_bytes = limits.swap_limit_bytes;
  wanted.oom_group = options_.oom_group;
  wanted.standard_devices = !privileged;
  wanted.devices = std::move(devices);
  wanted.huge_pages = HugePages(limits);
  RETURN_IF_ERROR(backend_->Apply(made.cgroup, wanted));
  return std::move(made.cgroup);
}

Result<CgroupTree::PodDirs> CgroupTree::OpenPodDirs(const PodUid& uid, model::QosClass qos) {
  ASSIGN_OR_RETURN(Cgroup pod, OpenPod(uid, qos));
  PodDirs dirs;
  const auto first_shared =
      pod.dirs.begin() + static_cast<ptrdiff_t>(backend_->layout().WithLimits());
  dirs.shared.assign(std::make_move_iterator(first_shared),
                     std::make_move_iterator(pod.dirs.end()));
  pod.dirs.erase(first_shared, pod.dirs.end());
  dirs.limited = std::move(pod);
  return dirs;
}

Result<Cgroup> CgroupTree::OpenPod(const PodUid& uid, model::QosClass qos) {
  return OpenChild(ParentOf(qos), PodDirName(options_.naming, qos, uid));
}

Result<Cgroup> CgroupTree::OpenContainer(const PodUid& uid, model::QosClass qos,
                                         const ContainerId& id) {
  ASSIGN_OR_RETURN(PodDirs pod, OpenPodDirs(uid, qos));
  ASSIGN_OR_RETURN(Cgroup container, OpenChild(pod.limited, ContainerDirName(options_.naming, id)));
  container.shared = std::move(pod.shared);
  return container;
}

Result<void> CgroupTree::RemoveContainer(const PodUid& uid, model::QosClass qos,
                                         const ContainerId& id) {
  auto pod = OpenPodDirs(uid, qos);
  if (!pod && pod.error().code() == Code::kNotFound) return {};
  if (!pod) return std::move(pod.error());
  return RemoveChild(*backend_, pod->limited, ContainerDirName(options_.naming, id));
}

Result<void> CgroupTree::RemoveEmptyContainer(const PodUid& uid, model::QosClass qos,
                                              const ContainerId& id) {
  auto pod = OpenPodDirs(uid, qos);
  if (!pod && pod.error().code() == Code::kNotFound) return {};
  if (!pod) return std::move(pod.error());
  return RemoveEmptyChild(pod->limited, ContainerDirName(options_.naming, id));
}

Result<void> CgroupTree::RemovePod(const PodUid& uid, model::QosClass qos) {
  return RemoveChild(*backend_, ParentOf(qos), PodDirName(options_.naming, qos, uid));
}

Result<void> CgroupTree::SetClassRequests(const ClassRequests& requests) {
  CgroupLimits burstable;
  burstable.cpu_shares = CpuSharesFromMilli(requests.burstable_cpu_milli);
  burstable.memory_low = requests.burstable_memory_low;
  RETURN_IF_ERROR(backend_->Apply(burstable_, burstable));
  // What is above a protected cgroup has to cover it.
  CgroupLimits all;
  all.memory_min = requests.guaranteed_memory_min + requests.burstable_memory_low;
  return backend_->Apply(root_, all);
}

Result<std::vector<FoundPodCgroup>> CgroupTree::List() {
  std::vector<FoundPodCgroup> found;
  for (const model::QosClass qos : kQosClasses) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ListChildren(ParentOf(qos)));
    for (const std::string& name : names) {
      auto uid = ParsePodDirName(options_.naming, qos, name);
      if (!uid) continue;
      auto pod = OpenPodDirs(*uid, qos);
      if (!pod && pod.error().code() == Code::kNotFound) continue;
      if (!pod) return std::move(pod.error());
      FoundPodCgroup entry{std::move(*uid), qos, {}};
      ASSIGN_OR_RETURN(const std::vector<std::string> children, ListChildren(pod->limited));
      for (const std::string& child : children) {
        if (auto id = ParseContainerDirName(options_.naming, child)) {
          entry.containers.push_back(std::move(*id));
        }
      }
      found.push_back(std::move(entry));
    }
  }
  return found;
}

}  // namespace holdfast::runtime
