// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_table.h"

#include <algorithm>

#include "agent/kube/pod_identity.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

// A writer that never closes its file holds it back no longer than this.
constexpr std::chrono::seconds kLongestWrite{20};

template <class Object>
std::string FullName(const Object& object) {
  return StrCat(object.metadata().namespace_(), "/", object.metadata().name());
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

const char* Advice(bool valid, bool last_good) {
  if (valid) return "the rest of the file is in force; take this out of it";
  return last_good ? "the last good version of the file stays in force until it is corrected"
                   : "nothing of the file is in force until it is corrected";
}

void Sooner(std::optional<BootTime>& when, BootTime candidate) {
  if (!when || candidate < *when) when = candidate;
}

// Which file defines an object of one kind first; the others are reported.
class Names {
 public:
  explicit Names(std::string kind) : kind_(std::move(kind)) {}

  bool IsFirst(const std::string& name, const std::string& file, WallTime since,
               PodSnapshot& snapshot) {
    const auto [owner, added] = first_.emplace(name, file);
    if (added) return true;
    const std::string where =
        owner->second == file ? "earlier in the same file" : "in " + owner->second;
    snapshot.errors.push_back(
        {file, name, StrCat(file, ": ", kind_, " ", name, " is already defined ", where), since,
         false, "rename it here, or remove it from one of the two", ""});
    return false;
  }

 private:
  const std::string kind_;
  std::map<std::string, std::string> first_;  // full name -> file
};

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
                           FileObjects objects, const Moment& now) {
  Entry& entry = entries_[name];
  entry.loaded = signature;
  entry.renamed_in = false;
  SetError(entry.error, objects.message, now.wall);
  entry.content = objects.content;
  entry.valid = objects.valid;
  const bool had = !entry.pods.empty() || !entry.services.empty() || !entry.slices.empty();
  entry.last_good = !objects.valid && had;
  if (!objects.valid) return;
  entry.read_at = now.wall;
  std::vector<std::shared_ptr<const corev1::Pod>> fresh;
  for (auto& pod : objects.pods) fresh.push_back(WithSeen(std::move(pod), entry.pods, now.wall));
  entry.pods = std::move(fresh);
  entry.services = std::move(objects.services);
  entry.slices = std::move(objects.slices);
}

void ManifestTable::Failed(const std::string& name, const FileSignature& signature,
                           const std::string& why, const Moment& now) {
  FileObjects nothing;
  nothing.valid = false;
  nothing.message = why;
  Loaded(name, signature, std::move(nothing), now);
}

void ManifestTable::NoteDirectory(const std::string& why, const Moment& now) {
  SetError(directory_, why, now.wall);
}

PodSnapshot ManifestTable::Build() const {
  PodSnapshot snapshot;
  if (!directory_.text.empty()) {
    snapshot.errors.push_back({"", "", directory_.text, directory_.since, false, "", ""});
  }
  Names pods("pod"), services("service"), slices("endpoint slice");
  for (const auto& [file, entry] : entries_) {
    if (!entry.error.text.empty()) {
      const std::string pod = entry.pods.empty() ? std::string() : FullName(*entry.pods.front());
      snapshot.errors.push_back({file, pod, entry.error.text, entry.error.since, entry.last_good,
                                 Advice(entry.valid, entry.last_good), entry.content});
    }
    for (const auto& pod : entry.pods) {
      if (pods.IsFirst(FullName(*pod), file, SeenAt(*pod), snapshot)) {
        snapshot.pods.push_back({pod, file});
      }
    }
    const WallTime since = entry.read_at;
    for (const auto& service : entry.services) {
      if (services.IsFirst(FullName(*service), file, since, snapshot)) {
        snapshot.services.push_back({service, file});
      }
    }
    for (const auto& slice : entry.slices) {
      if (slices.IsFirst(FullName(*slice), file, since, snapshot)) {
        snapshot.slices.push_back({slice, file});
      }
    }
  }
  return snapshot;
}

}  // namespace holdfast::agent
