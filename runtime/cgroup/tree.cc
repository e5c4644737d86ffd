// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/cgroup/formulas.h"

namespace holdfast::runtime {
namespace {

constexpr std::array<model::QosClass, 3> kQosClasses = {
    model::QosClass::kGuaranteed, model::QosClass::kBurstable, model::QosClass::kBestEffort};

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
  RETURN_IF_ERROR(tree->top_.Make());
  ASSIGN_OR_RETURN(tree->huge_page_sizes_, tree->backend_->HugePageSizes(tree->top_.Get()->root));
  return tree;
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
  const auto top = top_.Get();
  const std::pair<const Cgroup*, const char*> limited[] = {
      {&pod, "the pod has all processes that it may have"},
      {&top->root, "all pods together have all processes that they may have"}};
  for (const auto& [cgroup, whose] : limited) {
    ASSIGN_OR_RETURN(const uint64_t limit, backend_->PidsLimit(*cgroup));
    ASSIGN_OR_RETURN(const CgroupUsage usage, backend_->Usage(*cgroup));
    if (usage.pids >= limit) return StrCat(whose, " (", limit, ")");
  }
  return std::string();
}

Result<void> CgroupTree::EnsurePod(const PodUid& uid, model::QosClass qos,
                                   const model::ResourceSpec& limits) {
  ASSIGN_OR_RETURN(const MadeCgroup made, MakePod(uid, qos));
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

// mkdir(2): ENOENT in a directory that was removed, although we have it open.
Result<MadeCgroup> CgroupTree::MakePod(const PodUid& uid, model::QosClass qos) {
  const std::string name = PodDirName(options_.naming, qos, uid);
  const auto top = top_.Get();
  auto made = MakeChild(top->Of(qos), name);
  if (made || made.error().sys_errno() != ENOENT) return made;
  ASSIGN_OR_RETURN(const auto anew, top_.MakeAnew(top));
  return MakeChild(anew->Of(qos), name);
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
  return OpenChild(top_.Get()->Of(qos), PodDirName(options_.naming, qos, uid));
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
  return RemoveChild(*backend_, top_.Get()->Of(qos), PodDirName(options_.naming, qos, uid));
}

Result<std::vector<FoundPodCgroup>> CgroupTree::List() {
  std::vector<FoundPodCgroup> found;
  const auto top = top_.Get();
  for (const model::QosClass qos : kQosClasses) {
    auto names = ListChildren(top->Of(qos));
    if (!names && names.error().sys_errno() == ENOENT)
      continue;  // it is gone, and all pods with it
    if (!names) return std::move(names.error());
    for (const std::string& name : *names) {
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
