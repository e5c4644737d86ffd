// SPDX-License-Identifier: Apache-2.0
#include "agent/view/pod_view_store.h"

#include "agent/kube/message_bytes.h"

namespace holdfast::agent {
namespace {

// Takes its entry out of the store's map when it goes.
template <class Callback>
class MapSubscription : public Subscription {
 public:
  MapSubscription(std::mutex& mutex, std::map<uint64_t, Callback>& watchers, uint64_t id)
      : mutex_(mutex), watchers_(watchers), id_(id) {}
  ~MapSubscription() override {
    const std::lock_guard lock(mutex_);
    watchers_.erase(id_);
  }

 private:
  std::mutex& mutex_;
  std::map<uint64_t, Callback>& watchers_;
  uint64_t id_;
};

bool SameButVersion(const corev1::Pod& shown, corev1::Pod& fresh) {
  fresh.mutable_metadata()->set_resourceversion(shown.metadata().resourceversion());
  return kube::SameMessage(shown, fresh);
}

}  // namespace

PodViewStore::PodViewStore(std::string node_name, const Clock& clock)
    : clock_(clock), events_(std::move(node_name)) {}

std::vector<PodPtr> PodViewStore::ListPods() const {
  const std::lock_guard lock(mutex_);
  std::vector<PodPtr> out;
  out.reserve(pods_.size());
  for (const auto& [key, pod] : pods_) out.push_back(pod);
  return out;
}

PodPtr PodViewStore::FindPod(const std::string& pod_namespace, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = pods_.find({pod_namespace, name});
  return it == pods_.end() ? nullptr : it->second;
}

std::vector<EventPtr> PodViewStore::ListEvents() const {
  const std::lock_guard lock(mutex_);
  return events_.List();
}

std::unique_ptr<Subscription> PodViewStore::WatchPods(PodCallback on_change) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, pod] : pods_) on_change({ChangeType::kAdded, pod});
  const uint64_t id = next_watcher_++;
  pod_watchers_[id] = std::move(on_change);
  return std::make_unique<MapSubscription<PodCallback>>(mutex_, pod_watchers_, id);
}

std::unique_ptr<Subscription> PodViewStore::WatchEvents(EventCallback on_change) {
  const std::lock_guard lock(mutex_);
  for (const EventPtr& event : events_.List()) on_change({ChangeType::kAdded, event});
  const uint64_t id = next_watcher_++;
  event_watchers_[id] = std::move(on_change);
  return std::make_unique<MapSubscription<EventCallback>>(mutex_, event_watchers_, id);
}

void PodViewStore::Put(corev1::Pod pod) {
  // A manifest has none; tools compute a pod's age from it. The start time is kept over restarts.
  if (!pod.metadata().has_creationtimestamp() && pod.status().has_starttime()) {
    *pod.mutable_metadata()->mutable_creationtimestamp() = pod.status().starttime();
  }
  const std::lock_guard lock(mutex_);
  PodPtr& shown = pods_[{pod.metadata().namespace_(), pod.metadata().name()}];
  const bool is_new = shown == nullptr;
  if (!is_new && SameButVersion(*shown, pod)) return;
  pod.mutable_metadata()->set_resourceversion(std::to_string(++version_));
  shown = std::make_shared<const corev1::Pod>(std::move(pod));
  const PodChange change{is_new ? ChangeType::kAdded : ChangeType::kModified, shown};
  for (const auto& [id, callback] : pod_watchers_) callback(change);
}

void PodViewStore::Remove(const std::string& pod_namespace, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto it = pods_.find({pod_namespace, name});
  if (it == pods_.end()) return;
  auto last = std::make_shared<corev1::Pod>(*it->second);
  last->mutable_metadata()->set_resourceversion(std::to_string(++version_));
  pods_.erase(it);
  for (const auto& [id, callback] : pod_watchers_) callback({ChangeType::kDeleted, last});
}

void PodViewStore::AddEvents(const corev1::Pod& pod, const std::vector<EventNote>& notes) {
  if (notes.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const EventNote& note : notes) {
    Announce(events_.Record(pod, note, clock_.Wall(), [this] { return ++version_; }));
  }
}

void PodViewStore::AddEvent(const EventSubject& subject, const EventNote& note) {
  const std::lock_guard lock(mutex_);
  Announce(events_.Record(subject, note, clock_.Wall(), [this] { return ++version_; }));
}

void PodViewStore::Announce(const std::vector<EventChange>& changes) {
  for (const EventChange& change : changes) {
    for (const auto& [id, callback] : event_watchers_) callback(change);
  }
}

}  // namespace holdfast::agent
