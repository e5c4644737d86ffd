// SPDX-License-Identifier: Apache-2.0
// FakePodView: a pod table that a test writes to. Thread-safe; the lock is its strand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/view/pod_view.h"

namespace holdfast::agent {

class FakePodView : public PodView {
 public:
  using Pod = k8s::io::api::core::v1::Pod;
  using Event = k8s::io::api::core::v1::Event;

  // Adds or replaces by UID; gives it the next resource version.
  void SetPod(Pod pod) {
    const std::lock_guard lock(mutex_);
    pod.mutable_metadata()->set_resourceversion(std::to_string(++version_));
    const std::string uid = pod.metadata().uid();
    const bool known = pods_.contains(uid);
    pods_[uid] = std::make_shared<const Pod>(std::move(pod));
    const PodChange change{known ? ChangeType::kModified : ChangeType::kAdded, pods_[uid]};
    for (const auto& [id, watcher] : pod_watchers_) watcher(change);
  }

  void RemovePod(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return;
    const PodChange change{ChangeType::kDeleted, found->second};
    pods_.erase(found);
    for (const auto& [id, watcher] : pod_watchers_) watcher(change);
  }

  void AddEvent(Event event) {
    const std::lock_guard lock(mutex_);
    event.mutable_metadata()->set_resourceversion(std::to_string(++version_));
    events_.push_back(std::make_shared<const Event>(std::move(event)));
    for (const auto& [id, watcher] : event_watchers_) {
      watcher({ChangeType::kAdded, events_.back()});
    }
  }

  size_t watchers() const {
    const std::lock_guard lock(mutex_);
    return pod_watchers_.size() + event_watchers_.size();
  }

  PodPtr FindPod(const std::string& pod_namespace, const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, pod] : pods_) {
      const auto& meta = pod->metadata();
      if (meta.namespace_() == pod_namespace && meta.name() == name) return pod;
    }
    return nullptr;
  }

  std::vector<PodPtr> ListPods() const override {
    const std::lock_guard lock(mutex_);
    std::vector<PodPtr> pods;
    for (const auto& [uid, pod] : pods_) pods.push_back(pod);
    const auto key = [](const PodPtr& pod) {
      return std::pair(pod->metadata().namespace_(), pod->metadata().name());
    };
    std::sort(pods.begin(), pods.end(),
              [&](const PodPtr& a, const PodPtr& b) { return key(a) < key(b); });
    return pods;
  }

  std::vector<EventPtr> ListEvents() const override {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  std::unique_ptr<Subscription> WatchPods(
      std::function<void(const PodChange&)> on_change) override {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, pod] : pods_) on_change({ChangeType::kAdded, pod});
    pod_watchers_[++next_id_] = std::move(on_change);
    return std::make_unique<Watch>(*this, next_id_);
  }

  std::unique_ptr<Subscription> WatchEvents(
      std::function<void(const EventChange&)> on_change) override {
    const std::lock_guard lock(mutex_);
    for (const auto& event : events_) on_change({ChangeType::kAdded, event});
    event_watchers_[++next_id_] = std::move(on_change);
    return std::make_unique<Watch>(*this, next_id_);
  }

 private:
  class Watch : public Subscription {
   public:
    Watch(FakePodView& view, int id) : view_(view), id_(id) {}
    ~Watch() override {
      const std::lock_guard lock(view_.mutex_);
      view_.pod_watchers_.erase(id_);
      view_.event_watchers_.erase(id_);
    }

   private:
    FakePodView& view_;
    const int id_;
  };

  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  int next_id_ = 0;
  std::map<std::string, PodPtr> pods_;
  std::vector<EventPtr> events_;
  std::map<int, std::function<void(const PodChange&)>> pod_watchers_;
  std::map<int, std::function<void(const EventChange&)>> event_watchers_;
};

}  // namespace holdfast::agent
