// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pod_pulls.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace holdfast::agent {

PodPulls::Shown::Shown(PodPulls& pulls, PodPull pull) : pulls_(pulls) {
  const std::lock_guard lock(pulls_.mutex_);
  id_ = ++pulls_.last_id_;
  pulls_.pulls_.emplace(id_, std::move(pull));
}

PodPulls::Shown::~Shown() {
  const std::lock_guard lock(pulls_.mutex_);
  pulls_.pulls_.erase(id_);
}

void PodPulls::Shown::Update(const PullProgress& progress) {
  const std::lock_guard lock(pulls_.mutex_);
  pulls_.pulls_.at(id_).progress = progress;
}

std::vector<PodPull> PodPulls::List() const {
  std::vector<PodPull> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, pull] : pulls_) all.push_back(pull);
  }
  std::ranges::stable_sort(all, {}, [](const PodPull& pull) {
    return std::tie(pull.pod_namespace, pull.pod, pull.container);
  });
  return all;
}

}  // namespace holdfast::agent
