// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/pod_state_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/pod/state/former_pods.h"
#include "agent/pod/state/record.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

constexpr size_t kInputsLimit = 8ull << 20;
constexpr mode_t kPodsDirMode = 0755;
constexpr mode_t kPodDirMode = 0750;
constexpr mode_t kInputsMode = 0600;
constexpr char kJournalName[] = "pods.journal";
constexpr char kInputsFile[] = "inputs.json";

// Keys of the journal: "<uid>/pod" and "<uid>/record".
constexpr std::string_view kPod = "/pod";
constexpr std::string_view kRecord = "/record";

std::string KeyOf(const corev1::Pod& pod, std::string_view what) {
  return StrCat(pod.metadata().uid(), what);
}

}  // namespace

Result<std::unique_ptr<PodStateStore>> PodStateStore::Open(model::Instance instance) {
  ASSIGN_OR_RETURN(DirFd pods_dir, sys::MakeDirs(AT_FDCWD, instance.PodsDir(), kPodsDirMode));
  ASSIGN_OR_RETURN(DirFd root, sys::OpenDir(instance.root_dir));
  FormerPods former = ReadFormerPods(pods_dir.get());
  ASSIGN_OR_RETURN(auto opened,
                   sys::Journal::Open(std::move(root), kJournalName, sys::Journal::Lasting::kDisk,
                                      former.written_at));
  auto store = std::unique_ptr<PodStateStore>(
      new PodStateStore(std::move(instance), std::move(pods_dir), std::move(opened)));
  store->TakeOver(std::move(former));
  return store;
}

PodPaths PodStateStore::Paths(const corev1::Pod& pod) const {
  const auto& meta = pod.metadata();
  return PodPaths(instance_, PodUid(meta.uid()), meta.namespace_(), meta.name());
}

Result<void> PodStateStore::SavePod(const corev1::Pod& pod) {
  RETURN_IF_ERROR(journal_->Put(KeyOf(pod, kPod), pod.SerializeAsString()));
  HOLDFAST_PAUSE_POINT("agent.state.pod_saved");
  RETURN_IF_ERROR(sys::MakeDirs(pods_dir_.get(), pod.metadata().uid(), kPodDirMode));
  HOLDFAST_PAUSE_POINT("agent.state.pod_dir_made");
  return {};
}

Result<void> PodStateStore::SaveRecord(const corev1::Pod& pod, const std::string& record) {
  RETURN_IF_ERROR(journal_->Put(KeyOf(pod, kRecord), record));
  HOLDFAST_PAUSE_POINT("agent.state.record_saved");
  return {};
}

Result<void> PodStateStore::SaveInputs(const corev1::Pod& pod, const std::string& kept) {
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(Paths(pod).Dir()));
  return sys::WriteFileAtomicAt(dir.get(), kInputsFile, kept, kInputsMode, false);
}

Result<std::string> PodStateStore::LoadInputs(const PodUid& uid) const {
  return sys::ReadFileAt(AT_FDCWD, StrCat(instance_.PodsDir(), "/", uid.value, "/", kInputsFile),
                         kInputsLimit);
}

Result<std::string> PodStateStore::Remove(const corev1::Pod& pod) {
  ASSIGN_OR_RETURN(std::string set_aside,
                   sys::RemoveOrSetAside(AT_FDCWD, Paths(pod).Dir(), instance_.AsideDir()));
  HOLDFAST_PAUSE_POINT("agent.state.files_removed");
  // A pod without a record has nothing running and nothing to remember.
  RETURN_IF_ERROR(journal_->Remove(KeyOf(pod, kRecord)));
  HOLDFAST_PAUSE_POINT("agent.state.record_removed");
  RETURN_IF_ERROR(journal_->Remove(KeyOf(pod, kPod)));
  HOLDFAST_PAUSE_POINT("agent.state.pod_removed");
  return set_aside;
}

Result<PodStateStore::Loaded> PodStateStore::LoadAll() {
  Loaded loaded;
  for (const auto& [key, bytes] : found_) {
    if (!key.ends_with(kPod)) continue;
    const std::string uid = key.substr(0, key.size() - kPod.size());
    auto stored = Load(uid);
    if (stored) {
      loaded.pods.push_back(std::move(*stored));
    } else {
      problems_.push_back(StrCat("pod ", uid, ": ", stored.error().message(), ", left alone"));
    }
  }
  RETURN_IF_ERROR(RemoveEmptyDirectories());
  // Who was never judged (killed before the first record) is judged after all that were.
  std::stable_partition(loaded.pods.begin(), loaded.pods.end(),
                        [](const StoredPod& pod) { return pod.memory.admission.has_value(); });
  found_.clear();
  loaded.problems = std::exchange(problems_, {});
  return loaded;
}

// What cannot be written now (a full disk) counts all the same, and is found again.
void PodStateStore::TakeOver(FormerPods former) {
  std::ranges::move(former.problems, std::back_inserter(problems_));
  for (FormerPod& pod : former.pods) {
    const std::string uid = pod.uid;
    // There when an agent was killed that took it over; then it is as old or older.
    auto taken = found_.contains(StrCat(uid, kPod)) ? Result<void>() : TakeOver(std::move(pod));
    if (taken) taken = RemoveFormerPod(pods_dir_.get(), uid);
    if (!taken) problems_.push_back(StrCat("pod ", uid, ": ", taken.error().message()));
  }
}

// The record first: a pod without one has just begun.
Result<void> PodStateStore::TakeOver(FormerPod former) {
  Result<void> taken;
  const std::string pod_key = StrCat(former.uid, kPod);
  if (former.record) {
    const std::string key = StrCat(former.uid, kRecord);
    taken = journal_->Put(key, *former.record);
    found_[key] = std::move(*former.record);
  }
  if (taken) taken = journal_->Put(pod_key, former.pod);
  found_[pod_key] = std::move(former.pod);
  return taken;
}

// What an agent left that was killed while it removed a pod.
Result<void> PodStateStore::RemoveEmptyDirectories() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(pods_dir_.get(), "."));
  for (const std::string& uid : names) {
    if (found_.contains(StrCat(uid, kPod))) continue;
    if (::unlinkat(pods_dir_.get(), uid.c_str(), AT_REMOVEDIR) == 0) continue;
    problems_.push_back(
        StrCat("pod directory ", uid, ": nothing was saved of its pod, left alone"));
  }
  return {};
}

Result<void> PodStateStore::LeaveAsFiles() {
  for (const auto& [key, bytes] : found_) {
    if (!key.ends_with(kPod)) continue;
    FormerPod pod{key.substr(0, key.size() - kPod.size()), bytes, std::nullopt};
    const auto record = found_.find(StrCat(pod.uid, kRecord));
    if (record != found_.end()) pod.record = record->second;
    RETURN_IF_ERROR(WriteFormerPod(pods_dir_.get(), pod));
  }
  return journal_->Unlink();
}

Result<StoredPod> PodStateStore::Load(const std::string& uid) const {
  auto pod = std::make_shared<corev1::Pod>();
  if (!pod->ParseFromString(found_.at(StrCat(uid, kPod))) || pod->metadata().uid() != uid) {
    return InvalidArgument("damaged");
  }
  StoredPod stored;
  stored.pod = std::move(pod);
  // Killed before the first record, or while removing: nothing was started, or nothing is left.
  const auto record = found_.find(StrCat(uid, kRecord));
  if (record == found_.end()) return stored;
  ASSIGN_OR_RETURN(stored.memory, DecodeRecord(record->second));
  // Of an agent that did not judge: it took every pod.
  if (!stored.memory.admission) stored.memory.admission = Admission{};
  return stored;
}

}  // namespace holdfast::agent
