// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <utility>

#include "agent/pod/state/record.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr size_t kPodLimit = 16ull << 20;
constexpr size_t kRecordLimit = 4ull << 20;
constexpr mode_t kDirMode = 0750;
constexpr mode_t kFileMode = 0600;

}  // namespace

PodPaths PodStateStore::Paths(const corev1::Pod& pod) const {
  const auto& meta = pod.metadata();
  const bool own_users = pod.spec().has_hostusers() && !pod.spec().hostusers();
  return PodPaths(instance_, PodUid(meta.uid()), meta.namespace_(), meta.name(),
                  own_users && !tmpfs_id_maps_);
}

Result<void> PodStateStore::SavePod(const corev1::Pod& pod) {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, Paths(pod).Dir(), kDirMode));
  HOLDFAST_PAUSE_POINT("agent.state.pod_dir_made");
  RETURN_IF_ERROR(
      sys::WriteFileAtomicAt(dir.get(), "pod.pb", pod.SerializeAsString(), kFileMode, false));
  HOLDFAST_PAUSE_POINT("agent.state.pod_saved");
  return {};
}

Result<void> PodStateStore::SaveRecord(const corev1::Pod& pod, const std::string& record) {
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(Paths(pod).Dir()));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir.get(), "record.json", record, kFileMode, false));
  HOLDFAST_PAUSE_POINT("agent.state.record_saved");
  return {};
}

Result<void> PodStateStore::Remove(const corev1::Pod& pod) {
  auto pods = sys::OpenDir(instance_.PodsDir());
  if (!pods) {
    if (pods.error().code() == Code::kNotFound) return {};
    return std::move(pods.error());
  }
  // The record goes first: a directory without one is only something to clean up.
  RETURN_IF_ERROR(sys::RemoveFileAt(pods->get(), pod.metadata().uid() + "/record.json"));
  HOLDFAST_PAUSE_POINT("agent.state.record_removed");
  return sys::RemoveTreeAt(pods->get(), pod.metadata().uid());
}

Result<StoredPod> PodStateStore::Load(int pods_dir, const std::string& uid) {
  ASSIGN_OR_RETURN(const std::string bytes, sys::ReadFileAt(pods_dir, uid + "/pod.pb", kPodLimit));
  auto pod = std::make_shared<corev1::Pod>();
  if (!pod->ParseFromString(bytes) || pod->metadata().uid() != uid) {
    return InvalidArgument(StrCat(uid, "/pod.pb: damaged"));
  }
  StoredPod stored;
  stored.pod = std::move(pod);
  auto text = sys::ReadFileAt(pods_dir, uid + "/record.json", kRecordLimit);
  if (!text) {
    // Killed before the first record, or while removing: nothing was started, or nothing is left.
    if (text.error().code() == Code::kNotFound) return stored;
    return std::move(text.error());
  }
  ASSIGN_OR_RETURN(stored.memory, DecodeRecord(*text));
  return stored;
}

Result<PodStateStore::Loaded> PodStateStore::LoadAll() {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, instance_.PodsDir(), kDirMode));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir.get(), "."));
  Loaded loaded;
  for (const std::string& uid : names) {
    auto stored = Load(dir.get(), uid);
    if (stored) {
      loaded.pods.push_back(std::move(*stored));
    } else {
      loaded.problems.push_back(StrCat("pod directory ", uid, ": ", stored.error().message()));
    }
  }
  return loaded;
}

}  // namespace holdfast::agent
