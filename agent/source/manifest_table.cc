// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_table.h"

#include <algorithm>

#include "agent/kube/pod_identity.h"
#include "agent/kube/times.h"
#include "agent/objects/references.h"
#include "agent/source/object_name.h"
#include "agent/source/pod_change.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

// A writer that never closes its file holds it back no longer than this.
constexpr std::chrono::seconds kLongestWrite{20};

// config.seen is when this very pod was first read: a file that is read again with the same content
// gives the same object.
std::shared_ptr<const corev1::Pod> WithSeen(
    std::shared_ptr<const corev1::Pod> pod,
    const std::vector<std::shared_ptr<const corev1::Pod>>& before, WallTime now) {
  for (const auto& old : before) {
    if (old->metadata().uid() == pod->metadata().uid() &&
        ComparePods(*old, *pod) == PodChangeKind::kNone) {
      return old;
    }
  }
  auto seen = std::make_shared<corev1::Pod>(*pod);
  (*seen->mutable_metadata()->mutable_annotations())[kube::kConfigSeenAnnotation] =
      kube::FormatRfc3339(now, 9);
  return seen;
}

WallTime SeenAt(const corev1::Pod& pod) {
  const auto& annotations = pod.metadata().annotations();
  const auto seen = annotations.find(kube::kConfigSeenAnnotation);
  if (seen == annotations.end()) return {};
  const auto time = kube::ParseRfc3339(seen->second);
  return time ? kube::ToWallTime(*time) : WallTime{};
}

using ConfigsByName = std::map<ObjectRef, ConfigObjectPtr>;

ConfigsByName ByName(const std::vector<ConfigObjectPtr>& configs) {
  ConfigsByName by_name;
  for (const ConfigObjectPtr& config : configs) by_name.emplace(config->ref, config);
  return by_name;
}

// Why a new version of a file is refused, one line each: it changes what never changes.
std::string FaultsOfUpdate(const std::string& file, const ConfigsByName& before,
                           const std::vector<ConfigObjectPtr>& now) {
  std::string text;
  for (const ConfigObjectPtr& config : now) {
    const auto old = before.find(config->ref);
    if (old == before.end()) continue;
    for (const kube::FieldError& error : CheckUpdate(*old->second, *config)) {
      text += StrCat(text.empty() ? "" : "\n", Printable(file), ": ", NameOf(config->ref), ": ",
                     error.ToString());
    }
  }
  return text;
}

// What says the same as before is the object that it was. Another is as old as the one that it takes the place of, and
// pods are not told of new labels: its data are those that were there.
void KeepUnchanged(const ConfigsByName& before, std::vector<ConfigObjectPtr>& now, WallTime made) {
  for (ConfigObjectPtr& config : now) {
    const auto old = before.find(config->ref);
    const bool is_new = old == before.end();
    const bool same = !is_new && HasSameContent(*old->second, *config);
    if (same && HasSameMetadata(*old->second, *config)) {
      config = old->second;
      continue;
    }
    auto fresh = std::make_shared<ConfigObject>(*config);
    fresh->created = is_new ? made : old->second->created;
    if (same) fresh->data = old->second->data;
    config = std::move(fresh);
  }
}

// When a file's version came to its place on this machine; whatever its writer says.
WallTime ArrivalOf(const FileSignature& signature, WallTime now) {
  return std::min(WallTime{std::chrono::nanoseconds(signature.ctime_ns)}, now);
}

const char* Advice(bool valid, bool last_good) {
  if (valid) return "the rest of the file is in force; take this out of it";
  return last_good ? "the last good version of the file stays in force until it is corrected"
                   : "nothing of the file is in force until it is corrected";
}

template <class Object>
bool SameNames(const std::vector<std::shared_ptr<const Object>>& a,
               const std::vector<std::shared_ptr<const Object>>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return HasSameName(*x, *y); });
}

// What no two objects of the directory may have both: a name among those of their kind; a pod's UID, which may be given.
template <class Objects>
std::vector<std::string> KeysOf(const Objects& of) {
  std::vector<std::string> keys;
  for (const auto& pod : of.pods) {
    keys.push_back(StrCat("uid ", pod->metadata().uid()));
    keys.push_back(StrCat("pod ", FullName(*pod)));
  }
  for (const auto& service : of.services) keys.push_back(StrCat("service ", FullName(*service)));
  for (const auto& slice : of.slices) keys.push_back(StrCat("slice ", FullName(*slice)));
  for (const auto& config : of.configs) {
    const char* kind = config->ref.kind == ObjectKind::kSecret ? "secret " : "configmap ";
    keys.push_back(StrCat(kind, FullName(*config)));
  }
  return keys;
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
        {file, name, Printable(StrCat(file, ": ", kind_, " ", name, " is already defined ", where)),
         since, false, "rename it here, or remove it from one of the two", ""});
    return false;
  }

 private:
  const std::string kind_;
  std::map<std::string, std::string> first_;  // full name -> file
};

// Whose UID it is. One that is given in the manifest may be another pod's.
class Uids {
 public:
  bool IsFirst(const corev1::Pod& pod, const std::string& file, PodSnapshot& snapshot) {
    const std::string name = FullName(pod);
    const std::string& uid = pod.metadata().uid();
    const auto [owner, added] = first_.emplace(uid, StrCat(name, " in ", file));
    if (added) return true;
    snapshot.errors.push_back({file, name,
                               Printable(StrCat(file, ": pod ", name, ": metadata.uid ", uid,
                                                " is already that of pod ", owner->second)),
                               SeenAt(pod), false,
                               "leave the uid out, or give the pod one of its own", ""});
    return false;
  }

 private:
  std::map<std::string, std::string> first_;  // uid -> pod
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

// One that was renamed in by somebody who closes it only afterwards is whole all the same.
void ManifestTable::NoteClosed(const std::string& name) { entries_[name].writing_since.reset(); }

void ManifestTable::NoteEdited(const std::string& name) { entries_[name].edited = true; }

void ManifestTable::SetError(Message& message, const std::string& text, WallTime now) {
  if (message.text == text) return;
  message = {text, now};
  rebuild_ = true;
}

// Whether the version that was seen may be read now; else says when to look again.
bool ManifestTable::IsReady(const Entry& entry, const Moment& now, Plan& plan) const {
  if (entry.loaded == entry.seen) return false;
  if (entry.renamed_in || entry.edited) return true;
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
  for (const auto& [name, signature] : listing) See(name, signature, now.boot);
  for (const auto& [name, entry] : entries_) {
    if (!listing.contains(name)) See(name, std::nullopt, now.boot);
  }
  return Settle(now);
}

ManifestTable::Plan ManifestTable::ObserveSome(const Sightings& some, const Moment& now) {
  for (const auto& [name, signature] : some) {
    if (signature || entries_.contains(name)) See(name, signature, now.boot);
  }
  return Settle(now);
}

void ManifestTable::See(const std::string& name, const std::optional<FileSignature>& signature,
                        BootTime now) {
  Entry& entry = entries_[name];
  if (!signature) {
    if (!entry.gone_since) entry.gone_since = now;
    entry.seen.reset();
    entry.renamed_in = false;
    unsettled_.insert(name);
    return;
  }
  entry.gone_since.reset();
  if (entry.seen != signature) {
    entry.seen = signature;
    entry.seen_since = now;
  }
  if (entry.loaded == signature) {
    entry.renamed_in = false;
    entry.edited = false;
  } else {
    unsettled_.insert(name);
  }
}

ManifestTable::Plan ManifestTable::Settle(const Moment& now) {
  Plan plan;
  std::erase_if(unsettled_, [&](const std::string& name) {
    Entry& entry = entries_[name];
    if (!entry.seen) return SettleGone(name, entry, now, plan);
    if (entry.loaded == entry.seen) return true;
    if (IsReady(entry, now, plan)) plan.read.emplace(name, *entry.seen);
    return false;  // until it is loaded
  });
  return plan;
}

bool ManifestTable::SettleGone(const std::string& name, Entry& entry, const Moment& now,
                               Plan& plan) {
  if (!entry.edited && entry.gone_since && now.boot - *entry.gone_since < quiet_) {
    Sooner(plan.look_again, *entry.gone_since + quiet_);
    return false;
  }
  keys_.Exchange(KeysOf(entry), {});
  entries_.erase(name);
  rebuild_ = true;
  return true;
}

void ManifestTable::Loaded(const std::string& name, const FileSignature& signature,
                           FileObjects objects, const Moment& now) {
  Entry& entry = entries_[name];
  const ConfigsByName configs = ByName(entry.configs);
  if (objects.valid) {
    std::string faults = FaultsOfUpdate(name, configs, objects.configs);
    objects.valid = faults.empty();
    if (!objects.valid) objects.message = std::move(faults);
  }
  entry.loaded = signature;
  entry.renamed_in = false;
  entry.edited = false;
  SetError(entry.error, objects.message, now.wall);
  entry.content = objects.content;
  entry.valid = objects.valid;
  const bool had = !entry.pods.empty() || !entry.services.empty() || !entry.slices.empty() ||
                   !entry.configs.empty();
  entry.last_good = !objects.valid && had;
  if (!objects.valid) return;
  entry.read_at = now.wall;
  if (!entry.origin) entry.origin = std::make_shared<const std::string>(name);
  for (auto& pod : objects.pods) pod = WithSeen(std::move(pod), entry.pods, now.wall);
  KeepUnchanged(configs, objects.configs, ArrivalOf(signature, now.wall));
  keys_.Exchange(KeysOf(entry), KeysOf(objects));
  const bool same = keys_.AreAllDifferent() && SameNames(objects.pods, entry.pods) &&
                    SameNames(objects.services, entry.services) &&
                    SameNames(objects.slices, entry.slices) &&
                    SameNames(objects.configs, entry.configs);
  if (same) renewed_.insert(name);
  rebuild_ = rebuild_ || !same;
  entry.pods = std::move(objects.pods);
  entry.services = std::move(objects.services);
  entry.slices = std::move(objects.slices);
  entry.configs = std::move(objects.configs);
}

void ManifestTable::Failed(const std::string& name, const FileSignature& signature,
                           const std::string& why, const Moment& now) {
  FileObjects nothing;
  nothing.valid = false;
  nothing.message = Printable(why);  // it names the file
  Loaded(name, signature, std::move(nothing), now);
}

void ManifestTable::NoteDirectory(const std::string& why, const Moment& now) {
  SetError(directory_, why, now.wall);
}

PodSnapshot ManifestTable::Build() {
  // Errors tell when their objects were read, and an object that is defined twice has no place.
  if (rebuild_ || !built_.errors.empty()) {
    BuildAll();
  } else {
    for (const std::string& file : renewed_) {
      const Entry& entry = entries_.at(file);
      for (size_t i = 0; i < entry.pods.size(); ++i) {
        built_.pods[entry.pod_at + i].pod = entry.pods[i];
      }
      for (size_t i = 0; i < entry.services.size(); ++i) {
        built_.services[entry.service_at + i].object = entry.services[i];
      }
      for (size_t i = 0; i < entry.slices.size(); ++i) {
        built_.slices[entry.slice_at + i].object = entry.slices[i];
      }
      for (size_t i = 0; i < entry.configs.size(); ++i) {
        built_.configs[entry.config_at + i].object = entry.configs[i];
      }
    }
  }
  rebuild_ = false;
  renewed_.clear();
  return built_;
}

void ManifestTable::BuildAll() {
  PodSnapshot snapshot;
  snapshot.pods.reserve(built_.pods.size() + 1);
  if (!directory_.text.empty()) {
    snapshot.errors.push_back({"", "", directory_.text, directory_.since, false, "", ""});
  }
  // Nearly always; then no name is looked up.
  const bool all_differ = keys_.AreAllDifferent();
  Names pods("pod"), services("service"), slices("endpoint slice"), maps("configmap"),
      secrets("secret");
  Uids uids;
  for (auto& [file, entry] : entries_) {
    entry.pod_at = snapshot.pods.size();
    entry.service_at = snapshot.services.size();
    entry.slice_at = snapshot.slices.size();
    entry.config_at = snapshot.configs.size();
    if (!entry.error.text.empty()) {
      const std::string pod = entry.pods.empty() ? std::string() : FullName(*entry.pods.front());
      snapshot.errors.push_back({file, pod, entry.error.text, entry.error.since, entry.last_good,
                                 Advice(entry.valid, entry.last_good), entry.content});
    }
    for (const auto& pod : entry.pods) {
      if (all_differ || (pods.IsFirst(FullName(*pod), file, SeenAt(*pod), snapshot) &&
                         uids.IsFirst(*pod, file, snapshot))) {
        snapshot.pods.push_back({pod, entry.origin});
      }
    }
    const WallTime since = entry.read_at;
    for (const auto& service : entry.services) {
      if (all_differ || services.IsFirst(FullName(*service), file, since, snapshot)) {
        snapshot.services.push_back({service, entry.origin});
      }
    }
    for (const auto& slice : entry.slices) {
      if (all_differ || slices.IsFirst(FullName(*slice), file, since, snapshot)) {
        snapshot.slices.push_back({slice, entry.origin});
      }
    }
    for (const auto& config : entry.configs) {
      Names& names = config->ref.kind == ObjectKind::kSecret ? secrets : maps;
      if (all_differ || names.IsFirst(FullName(*config), file, since, snapshot)) {
        snapshot.configs.push_back({config, entry.origin});
      }
    }
  }
  built_ = std::move(snapshot);
}

}  // namespace holdfast::agent
