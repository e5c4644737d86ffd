// SPDX-License-Identifier: Apache-2.0
// PodViewStore: PodView's snapshots and watchers, and where events go. Thread-safe: one mutex orders all changes, and
// callbacks run under it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/events/event_log.h"
#include "agent/events/event_sink.h"
#include "agent/kube/types_fwd.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

class PodViewStore : public PodView, public EventSink {
 public:
  PodViewStore(std::string node_name, const Clock& clock);

  std::vector<PodPtr> ListPods() const override;
  PodPtr FindPod(const std::string& pod_namespace, const std::string& name) const override;
  std::vector<EventPtr> ListEvents() const override;
  std::unique_ptr<Subscription> WatchPods(std::function<void(const PodChange&)> on_change) override;
  std::unique_ptr<Subscription> WatchEvents(
      std::function<void(const EventChange&)> on_change) override;

  // Shows `pod` (without a resource version) unless it equals what is shown.
  void Put(corev1::Pod pod);
  void Remove(const std::string& pod_namespace, const std::string& name);
  void AddEvents(const corev1::Pod& pod, const std::vector<EventNote>& notes);
  void AddEvent(const EventSubject& subject, const EventNote& note) override;

 private:
  void Announce(const std::vector<EventChange>& changes);

  using PodCallback = std::function<void(const PodChange&)>;
  using EventCallback = std::function<void(const EventChange&)>;

  mutable std::mutex mutex_;
  const Clock& clock_;
  uint64_t version_ = 0;
  uint64_t next_watcher_ = 0;
  std::map<std::pair<std::string, std::string>, PodPtr> pods_;
  EventLog events_;
  std::map<uint64_t, PodCallback> pod_watchers_;
  std::map<uint64_t, EventCallback> event_watchers_;
};

}  // namespace holdfast::agent
