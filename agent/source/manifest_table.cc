// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_table.h"

#include <algorithm>

#include "agent/kube/pod_identity.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// A writer that never closes its file holds it back no longer than this.
constexpr std::chrono::seconds kLongestWrite{20};

std::string FullName(const corev1::Pod& pod) {
  return StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
}

// config.seen is when this very pod was first read: a file that is read again with the same content
// gives the same object.
std::shared_ptr<const corev1::Pod> WithSeen(
    std::shared_ptr<const corev1::Pod> pod,
    const std::vector<std::shared_ptr<const corev1::Pod>>& before, WallTime now) {
  for (const auto& old : before) {
    if (old->metadata().uid() == pod->metadata().uid() && FullName(*old) == FullName(*pod))
      return old;
  }
  auto seen = std::make_shared<corev1::Pod>(*pod);
  const auto nanoseconds = now.since_epoch.count();
  constexpr int64_t kSecond = 1'000'000'000;
  (*seen->mutable_metadata()->mutable_annotations())[kube::kConfigSeenAnnotation] =
      kube::FormatRfc3339({nanoseconds / kSecond, static_cast<int32_t>(nanoseconds % kSecond)}, 9);
  return seen;
}

WallTime SeenAt(const corev1::Pod& pod) {
  const auto& annotations = pod.metadata().annotations();
  const auto seen = annotations.find(kube::kConfigSeenAnnotation);
  if (seen == annotations.end()) return {};
  const auto time = kube::ParseRfc3339(seen->second);
  return time
             ? WallTime{std::chrono::seconds(time->seconds) + std::chrono::nanoseconds(time->nanos)}
             : WallTime{};
}

void Sooner(std::optional<BootTime>& when, BootTime candidate) {
  if (!when || candidate < *when) when = candidate;
}

}  // namespace

ManifestTable::ManifestTable(std::chrono::nanoseconds quiet) : quiet_(quiet) {}

void ManifestTable::NoteRenamedIn(const std::string& name) {
  Entry& entry = entries_[name];
  entry.renamed_in = true;
  entry.writing_since.reset();
}

void ManifestTable::NoteWriting(const std::string& name, bool open, BootTime now) {
  Entry& entry = entries_[name];
  entry.renamed_in = false;
  entry.writing_since = open ? std::optional(now) : std::nullopt;
}

void ManifestTable::SetError(Message& message, const std::string& text, WallTime now) {
  if (message.text != text) message = {text, now};
}

// Whether the version that was seen may be read now; else says when to look again.
bool ManifestTable::IsReady(const Entry& entry, const Moment& now, Plan& plan) const {
  if (entry.loaded == entry.seen) return false;
  if (entry.renamed_in) return true;
  if (entry.writing_since && now.boot - *entry.writing_since < kLongestWrite) {
    Sooner(plan.look_again, *entry.writing_since + kLongestWrite);
    return false;
  }
  if (now.boot - entry.seen_since >= quiet_) return true;
  // At start nothing was watched before, but the file itself says when it last changed. A time in
  // the future (the clock was set back) proves nothing.
  const std::chrono::nanoseconds age =
      now.wall.since_epoch - std::chrono::nanoseconds(entry.seen->ctime_ns);
  if (age >= quiet_) return true;
  Sooner(plan.look_again, entry.seen_since + quiet_);
  return false;
}

ManifestTable::Plan ManifestTable::Observe(const Listing& listing, const Moment& now) {
  Plan plan;
  for (const auto& [name, signature] : listing) {
    Entry& entry = entries_[name];
    entry.gone_since.reset();
    if (entry.seen != signature) {
      entry.seen = signature;
      entry.seen_since = now.boot;
    }
    if (entry.loaded == signature) entry.renamed_in = false;
    if (IsReady(entry, now, plan)) plan.read.push_back(name);
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (listing.contains(it->first)) {
      ++it;
      continue;
    }
    if (!entry.gone_since) entry.gone_since = now.boot;
    entry.seen.reset();
    entry.renamed_in = false;
    if (now.boot - *entry.gone_since >= quiet_) {
      it = entries_.erase(it);
    } else {
      Sooner(plan.look_again, *entry.gone_since + quiet_);
      ++it;
    }
  }
  return plan;
}

void ManifestTable::Loaded(const std::string& name, const FileSignature& signature,
                           ManifestPods pods, const Moment& now) {
  Entry& entry = entries_[name];
  entry.loaded = signature;
  entry.renamed_in = false;
  SetError(entry.error, pods.message, now.wall);
  entry.last_good = !pods.valid && !entry.pods.empty();
  if (!pods.valid) return;
  std::vector<std::shared_ptr<const corev1::Pod>> fresh;
  for (auto& pod : pods.pods) fresh.push_back(WithSeen(std::move(pod), entry.pods, now.wall));
  entry.pods = std::move(fresh);
}

void ManifestTable::Failed(const std::string& name, const FileSignature& signature,
                           const std::string& why, const Moment& now) {
  Loaded(name, signature, {{}, false, why}, now);
}

void ManifestTable::NoteDirectory(const std::string& why, const Moment& now) {
  SetError(directory_, why, now.wall);
}

PodSnapshot ManifestTable::Build() const {
  PodSnapshot snapshot;
  if (!directory_.text.empty()) {
    snapshot.errors.push_back({"", "", directory_.text, directory_.since, false});
  }
  std::map<std::string, std::string> first;  // full name -> file
  for (const auto& [file, entry] : entries_) {
    if (!entry.error.text.empty()) {
      const std::string pod = entry.pods.empty() ? std::string() : FullName(*entry.pods.front());
      snapshot.errors.push_back({file, pod, entry.error.text, entry.error.since, entry.last_good});
    }
    for (const auto& pod : entry.pods) {
      const std::string name = FullName(*pod);
      if (const auto [owner, added] = first.emplace(name, file); !added) {
        const std::string where =
            owner->second == file ? "earlier in the same file" : "in " + owner->second;
        snapshot.errors.push_back({file, name,
                                   StrCat(file, ": pod ", name, " is already defined ", where),
                                   SeenAt(*pod), false});
        continue;
      }
      snapshot.pods.push_back({pod, file});
    }
  }
  return snapshot;
}

}  // namespace holdfast::agent
