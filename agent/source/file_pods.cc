// SPDX-License-Identifier: Apache-2.0
#include "agent/source/file_pods.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

class FilePods::State {
 public:
  State(PodSource& source, PodRegistry& registry, FilePods::Look before, FilePods::Look after)
      : source_(source),
        registry_(registry),
        before_(std::move(before)),
        after_(std::move(after)) {}

  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  // The newest snapshot, whichever change it was called for: callbacks may overtake each other.
  void Look() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto snapshot = source_.Snapshot();
    if (!snapshot->complete || snapshot == seen_) return;
    if (before_) before_(*snapshot);
    Hand(snapshot->pods);
    seen_ = snapshot;
    registry_.Complete(PodOrigin::kFile);
    if (after_) after_(*snapshot);
  }

 private:
  // One file's change leaves what is listed before and after it as it was: a comparison of pointers
  // each.
  void Hand(const std::vector<DesiredPod>& now) {
    static const std::vector<DesiredPod> kNone;
    const std::vector<DesiredPod>& before = seen_ ? seen_->pods : kNone;
    const auto [left, right] = std::ranges::mismatch(before, now);
    auto before_end = before.end();
    auto now_end = now.end();
    while (before_end != left && now_end != right && *(before_end - 1) == *(now_end - 1)) {
      --before_end;
      --now_end;
    }
    std::map<PodUid, const DesiredPod*> gone;
    for (auto it = left; it != before_end; ++it) gone[PodUid(it->pod->metadata().uid())] = &*it;
    for (auto it = right; it != now_end; ++it) gone.erase(PodUid(it->pod->metadata().uid()));
    // First, so that a name is free for the pod that takes it over.
    for (const auto& [uid, pod] : gone) registry_.Remove(PodOrigin::kFile, uid);
    for (auto it = right; it != now_end; ++it) {
      // Ignored: a UID of another origin's pod is random and unknown to whoever writes files here.
      (void)registry_.Set({it->pod, PodOrigin::kFile, std::nullopt});
    }
  }

  PodSource& source_;
  PodRegistry& registry_;
  const FilePods::Look before_, after_;
  std::mutex mutex_;
  bool closed_ = false;
  std::shared_ptr<const PodSnapshot> seen_;
};

FilePods::FilePods(PodSource& source, PodRegistry& registry, Look before, Look after)
    : source_(source),
      state_(std::make_shared<State>(source, registry, std::move(before), std::move(after))) {
  source_.SetChangeCallback([state = state_] { state->Look(); });
  state_->Look();
}

FilePods::~FilePods() {
  source_.SetChangeCallback({});
  state_->Close();
}

}  // namespace holdfast::agent
