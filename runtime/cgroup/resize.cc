// SPDX-License-Identifier: Apache-2.0
// CgroupTree: other amounts of cpu and memory for a pod that runs. The kernel says what is there now, so that a resize
// that was cut short anywhere goes on from where it was.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/cgroup/tree.h"

namespace holdfast::runtime {
namespace {

// A cgroup, and what it is to have.
struct Resized {
  std::string label;  // for messages
  Cgroup cgroup;
  CgroupLimits now;
  CgroupLimits wanted;
};

using Bound = std::optional<int64_t>;  // absent: not named, it stays

bool IsBelow(int64_t limit, int64_t other) {
  if (limit == CgroupLimits::kUnlimited) return false;
  return other == CgroupLimits::kUnlimited || limit < other;
}

Bound Wider(const Bound& now, const Bound& wanted) {
  return wanted && IsBelow(*wanted, *now) ? now : wanted;
}

Bound Narrower(const Bound& now, const Bound& wanted) {
  return wanted && IsBelow(*now, *wanted) ? now : wanted;
}

// What is being raised is raised already, what is being lowered not yet.
CgroupLimits Widened(const Resized& one) {
  CgroupLimits limits = one.wanted;
  limits.cpu_quota_us = Wider(one.now.cpu_quota_us, one.wanted.cpu_quota_us);
  limits.memory_bytes = Wider(one.now.memory_bytes, one.wanted.memory_bytes);
  return limits;
}

CgroupLimits Narrowed(const Resized& one) {
  CgroupLimits limits = one.wanted;
  limits.cpu_quota_us = Narrower(one.now.cpu_quota_us, one.wanted.cpu_quota_us);
  limits.memory_bytes = Narrower(one.now.memory_bytes, one.wanted.memory_bytes);
  return limits;
}

// With v2 the kernel would kill for it, with v1 it would refuse in the midst of the others.
Result<void> CheckMemory(CgroupBackend& backend, const std::vector<Resized>& all) {
  std::string refused;
  size_t count = 0;
  for (const Resized& one : all) {
    const Bound& limit = one.wanted.memory_bytes;
    if (!limit || !IsBelow(*limit, *one.now.memory_bytes)) continue;
    ASSIGN_OR_RETURN(const CgroupUsage usage, backend.Usage(one.cgroup));
    if (usage.memory_bytes < static_cast<uint64_t>(*limit)) continue;
    refused += StrCat(count++ == 0 ? "" : ", ", "attempting to set ", one.label, " memory limit (",
                      *limit, ") below current usage (", usage.memory_bytes, ")");
  }
  if (count == 0) return {};
  if (count > 1) refused = StrCat("[", refused, "]");
  return Conflict(StrCat("cannot decrease memory limits: ", refused));
}

}  // namespace

Result<void> CgroupTree::Resize(const PodUid& uid, model::QosClass qos,
                                const model::ResourceSpec& limits,
                                const std::vector<ResizedContainer>& containers) {
  std::vector<Resized> all;  // the pod first
  ASSIGN_OR_RETURN(Cgroup pod_cgroup, OpenPod(uid, qos));
  all.push_back({"pod", std::move(pod_cgroup), {}, LimitsOfPod(limits)});
  LiftProtection(all.back().wanted);
  for (const ResizedContainer& container : containers) {
    auto cgroup = OpenContainer(uid, qos, container.id);
    if (!cgroup && cgroup.error().code() == Code::kNotFound) continue;
    if (!cgroup) return std::move(cgroup.error());
    CgroupLimits wanted = LimitsFromResources(container.resources);
    wanted.swap_bytes = container.resources.swap_limit_bytes;
    LiftProtection(wanted);
    all.push_back({StrCat("container \"", container.name, "\""), std::move(*cgroup), {}, wanted});
  }
  for (Resized& one : all) {
    ASSIGN_OR_RETURN(one.now, backend_->Limits(one.cgroup));
  }
  RETURN_IF_ERROR(CheckMemory(*backend_, all));
  const Resized& pod = all.front();
  const auto resized_containers = std::span(all).subspan(1);
  RETURN_IF_ERROR(backend_->Apply(pod.cgroup, Widened(pod)));
  HOLDFAST_PAUSE_POINT("cgroup.resize_widened");
  for (const Resized& one : resized_containers) {
    RETURN_IF_ERROR(backend_->Apply(one.cgroup, Narrowed(one)));
  }
  HOLDFAST_PAUSE_POINT("cgroup.resize_narrowed");
  for (const Resized& one : resized_containers) {
    RETURN_IF_ERROR(backend_->Apply(one.cgroup, one.wanted));
  }
  return backend_->Apply(pod.cgroup, pod.wanted);
}

}  // namespace holdfast::runtime
