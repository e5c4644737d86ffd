// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/file_pod_inputs.h"

#include <algorithm>
#include <utility>

#include "agent/objects/no_inputs.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// What the directory never has.
const NoInputs& Nothing() {
  static const NoInputs kNone;
  return kNone;
}

bool ShowsObjects(const std::map<ObjectRef, ObjectUse>& uses) {
  return std::ranges::any_of(uses, [](const auto& use) { return use.second.in_volume; });
}

}  // namespace

void FilePodInputs::SetObjects(std::vector<ConfigObjectPtr> objects) {
  std::vector<PodUid> touched;
  {
    const std::lock_guard lock(mutex_);
    const bool first = !std::exchange(complete_, true);
    const std::set<ObjectRef> changed = Replace(std::move(objects));
    std::set<PodUid> pods;
    for (const ObjectRef& ref : changed) {
      const auto users = users_.find(ref);
      if (users == users_.end()) continue;
      for (const PodUid& uid : users->second) {
        Known& known = pods_.at(uid);
        if (known.uses.at(ref).in_volume) ++known.version;
        pods.insert(uid);
      }
    }
    if (first) {
      for (const auto& [uid, known] : pods_) pods.insert(uid);
    }
    touched.assign(pods.begin(), pods.end());
  }
  Tell(touched);
}

// One file's change leaves what stands before and after it as it was: a comparison of pointers each.
// Returns what was added, replaced or taken away.
std::set<ObjectRef> FilePodInputs::Replace(std::vector<ConfigObjectPtr> objects) {
  const auto [left, right] = std::ranges::mismatch(objects_, objects);
  auto before_end = objects_.end();
  auto now_end = objects.end();
  while (before_end != left && now_end != right && *(before_end - 1) == *(now_end - 1)) {
    --before_end;
    --now_end;
  }
  std::map<ObjectRef, std::shared_ptr<const ObjectData>> gone;
  for (auto it = left; it != before_end; ++it) gone.emplace((*it)->ref, (*it)->data);
  std::set<ObjectRef> changed;
  for (auto it = right; it != now_end; ++it) {
    const auto before = gone.find((*it)->ref);
    const bool same = before != gone.end() && before->second == (*it)->data;
    if (before != gone.end()) gone.erase(before);
    if (same) continue;
    data_[(*it)->ref] = (*it)->data;
    changed.insert((*it)->ref);
  }
  for (const auto& [ref, data] : gone) {
    data_.erase(ref);
    changed.insert(ref);
  }
  objects_ = std::move(objects);
  return changed;
}

void FilePodInputs::ServicesChanged() {
  std::set<PodUid> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(awaiting_);
  }
  Tell({waiting.begin(), waiting.end()});
}

void FilePodInputs::Tell(const std::vector<PodUid>& pods) {
  if (pods.empty()) return;
  const std::lock_guard lock(telling_);
  if (!listener_) return;
  for (const PodUid& uid : pods) listener_(uid);
}

void FilePodInputs::Acquire(std::shared_ptr<const corev1::Pod> pod) {
  const PodUid uid(pod->metadata().uid());
  auto uses = ReferencesOf(*pod, [](const ObjectRef&) { return nullptr; }).objects;
  const uint64_t now = services_.generation();
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = pods_.try_emplace(uid);
  Known& known = place->second;
  if (is_new) known.since = now;
  if (known.version == 0 ? ShowsObjects(uses) : known.uses != uses) ++known.version;
  ForgetUses(uid, known);
  known.uses = std::move(uses);
  for (const auto& [ref, use] : known.uses) users_[ref].insert(uid);
}

void FilePodInputs::Release(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto found = pods_.find(uid);
  if (found == pods_.end()) return;
  ForgetUses(uid, found->second);
  pods_.erase(found);
  awaiting_.erase(uid);
}

void FilePodInputs::ForgetUses(const PodUid& uid, const Known& known) {
  for (const auto& [ref, use] : known.uses) {
    const auto users = users_.find(ref);
    users->second.erase(uid);
    if (users->second.empty()) users_.erase(users);
  }
}

void FilePodInputs::Refresh(const PodUid& /*uid*/) {}  // the directory is followed

ObjectInput FilePodInputs::Object(const PodUid& uid, const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  if (!complete_ || !pods_.contains(uid)) return {};
  const auto found = data_.find(ref);
  if (found == data_.end()) return Nothing().Object(uid, ref);
  return {InputState::kPresent, found->second, ""};
}

TokenInput FilePodInputs::Token(const PodUid& uid, const std::string& audience,
                                std::chrono::seconds life) const {
  return Nothing().Token(uid, audience, life);
}

std::optional<std::vector<std::string>> FilePodInputs::ServiceVariables(const PodUid& uid,
                                                                        const std::string& ns,
                                                                        bool links) const {
  uint64_t since = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = pods_.find(uid); known != pods_.end()) since = known->second.since;
  }
  if (auto variables = services_.variables(ns, links, since)) return variables;
  {
    const std::lock_guard lock(mutex_);
    if (pods_.contains(uid)) awaiting_.insert(uid);
  }
  // Whoever made them known before that has not seen who waits.
  return services_.variables(ns, links, since);
}

uint64_t FilePodInputs::VersionOf(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = pods_.find(uid);
  return found == pods_.end() ? 0 : found->second.version;
}

void FilePodInputs::SetListener(std::function<void(const PodUid&)> changed) {
  const std::lock_guard lock(telling_);
  listener_ = std::move(changed);
}

}  // namespace holdfast::agent
