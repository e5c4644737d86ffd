// SPDX-License-Identifier: Apache-2.0
#include "agent/source/pod_registry.h"

#include <utility>

#include "agent/source/pod_change.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

PodRegistry::PodRegistry(std::set<PodOrigin> origins) : incomplete_(std::move(origins)) {}

Result<void> PodRegistry::Set(WantedPod pod) {
  {
    const std::lock_guard lock(mutex_);
    const PodUid uid(pod.pod->metadata().uid());
    const auto known = wanted_.find(uid);
    if (known != wanted_.end()) {
      if (known->second.origin != pod.origin) {
        return Conflict(StrCat("pod ", pod.pod->metadata().namespace_(), "/",
                               pod.pod->metadata().name(), ": its uid ", uid.value,
                               " is already that of a pod of another origin"));
      }
      const bool news = known->second.deletion != pod.deletion ||
                        ComparePods(*known->second.pod, *pod.pod) != PodChangeKind::kNone;
      if (!news) {
        known->second.pod = std::move(pod.pod);
        return {};
      }
    }
    wanted_.insert_or_assign(uid, std::move(pod));
    Note(uid);
  }
  Tell();
  return {};
}

void PodRegistry::Remove(PodOrigin origin, const PodUid& uid) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = wanted_.find(uid);
    if (known == wanted_.end() || known->second.origin != origin) return;
    wanted_.erase(known);
    Note(uid);
  }
  Tell();
}

bool PodRegistry::Has(PodOrigin origin, const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto known = wanted_.find(uid);
  return known != wanted_.end() && known->second.origin == origin;
}

void PodRegistry::Complete(PodOrigin origin) {
  {
    const std::lock_guard lock(mutex_);
    if (incomplete_.erase(origin) == 0) return;
  }
  Tell();
}

bool PodRegistry::IsComplete(PodOrigin origin) const {
  const std::lock_guard lock(mutex_);
  return !incomplete_.contains(origin);
}

std::vector<PodNews> PodRegistry::Take() {
  const std::lock_guard lock(mutex_);
  std::vector<PodNews> news;
  for (PodUid& uid : changed_) {
    const auto known = wanted_.find(uid);
    std::optional<WantedPod> wanted;
    if (known != wanted_.end()) wanted = known->second;
    news.push_back({std::move(uid), std::move(wanted)});
  }
  changed_.clear();
  noted_.clear();
  return news;
}

std::shared_ptr<const k8s::io::api::core::v1::Pod> PodRegistry::Find(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto known = wanted_.find(uid);
  return known == wanted_.end() ? nullptr : known->second.pod;
}

void PodRegistry::SetListener(std::function<void()> news) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(news);
}

void PodRegistry::Note(const PodUid& uid) {
  if (noted_.insert(uid).second) changed_.push_back(uid);
}

void PodRegistry::Tell() {
  std::function<void()> listener;
  {
    const std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener) listener();
}

}  // namespace holdfast::agent
