// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/pod/state/record.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

constexpr size_t kPodLimit = 16ull << 20;
constexpr size_t kRecordLimit = 4ull << 20;
constexpr size_t kInputsLimit = 8ull << 20;
constexpr mode_t kDirMode = 0750;
constexpr mode_t kFileMode = 0600;
constexpr char kPodFile[] = "pod.pb";
constexpr char kRecordFile[] = "record.json";
constexpr char kInputsFile[] = "inputs.json";

}  // namespace

PodPaths PodStateStore::Paths(const corev1::Pod& pod) const {
  const auto& meta = pod.metadata();
  return PodPaths(instance_, PodUid(meta.uid()), meta.namespace_(), meta.name());
}

Result<void> PodStateStore::SavePod(const corev1::Pod& pod) {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, Paths(pod).Dir(), kDirMode));
  HOLDFAST_PAUSE_POINT("agent.state.pod_dir_made");
  RETURN_IF_ERROR(
      sys::WriteFileAtomicAt(dir.get(), kPodFile, pod.SerializeAsString(), kFileMode, false));
  HOLDFAST_PAUSE_POINT("agent.state.pod_saved");
  return {};
}

Result<void> PodStateStore::SyncPod(const corev1::Pod& pod) {
  const std::string dir = Paths(pod).Dir();
  for (const std::string& path : {StrCat(dir, "/", kPodFile), dir, instance_.PodsDir()}) {
    ASSIGN_OR_RETURN(const UniqueFd file, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW));
    if (::fsync(file.get()) != 0) return Error::FromErrno(errno, StrCat("fsync ", path));
  }
  return {};
}

Result<void> PodStateStore::SaveRecord(const corev1::Pod& pod, const std::string& record,
                                       bool durable) {
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(Paths(pod).Dir()));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir.get(), kRecordFile, record, kFileMode, durable));
  HOLDFAST_PAUSE_POINT("agent.state.record_saved");
  return {};
}

Result<void> PodStateStore::SaveInputs(const corev1::Pod& pod, const std::string& kept) {
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(Paths(pod).Dir()));
  return sys::WriteFileAtomicAt(dir.get(), kInputsFile, kept, kFileMode, false);
}

Result<std::string> PodStateStore::LoadInputs(const PodUid& uid) const {
  return sys::ReadFileAt(AT_FDCWD, StrCat(instance_.PodsDir(), "/", uid.value, "/", kInputsFile),
                         kInputsLimit);
}

Result<std::vector<std::string>> PodStateStore::Remove(const corev1::Pod& pod) {
  const std::string dir = Paths(pod).Dir();
  std::vector<std::string> set_aside;
  const auto remove = [&](const std::string& path) -> Result<void> {
    ASSIGN_OR_RETURN(std::string left, sys::RemoveOrSetAside(AT_FDCWD, path, instance_.AsideDir()));
    if (!left.empty()) set_aside.push_back(std::move(left));
    return {};
  };
  auto names = sys::ListDirAt(AT_FDCWD, dir);
  if (!names && names.error().code() == Code::kNotFound) return set_aside;
  if (!names) return std::move(names.error());
  for (const std::string& name : *names) {
    if (name != kPodFile && name != kRecordFile) RETURN_IF_ERROR(remove(StrCat(dir, "/", name)));
  }
  HOLDFAST_PAUSE_POINT("agent.state.files_removed");
  // A pod without a record has nothing running and nothing to remember.
  RETURN_IF_ERROR(sys::RemoveFileAt(AT_FDCWD, StrCat(dir, "/", kRecordFile)));
  HOLDFAST_PAUSE_POINT("agent.state.record_removed");
  RETURN_IF_ERROR(sys::RemoveFileAt(AT_FDCWD, StrCat(dir, "/", kPodFile)));
  HOLDFAST_PAUSE_POINT("agent.state.pod_removed");
  RETURN_IF_ERROR(remove(dir));
  return set_aside;
}

Result<StoredPod> PodStateStore::Load(int pods_dir, const std::string& uid) {
  ASSIGN_OR_RETURN(const std::string bytes,
                   sys::ReadFileAt(pods_dir, StrCat(uid, "/", kPodFile), kPodLimit));
  auto pod = std::make_shared<corev1::Pod>();
  if (!pod->ParseFromString(bytes) || pod->metadata().uid() != uid) {
    return InvalidArgument(StrCat(uid, "/pod.pb: damaged"));
  }
  StoredPod stored;
  stored.pod = std::move(pod);
  auto text = sys::ReadFileAt(pods_dir, StrCat(uid, "/", kRecordFile), kRecordLimit);
  if (!text) {
    // Killed before the first record, or while removing: nothing was started, or nothing is left.
    if (text.error().code() == Code::kNotFound) return stored;
    return std::move(text.error());
  }
  ASSIGN_OR_RETURN(stored.memory, DecodeRecord(*text));
  // Of an agent that did not judge: it took every pod.
  if (!stored.memory.admission) stored.memory.admission = Admission{};
  return stored;
}

Result<PodStateStore::Loaded> PodStateStore::LoadAll() {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, instance_.PodsDir(), kDirMode));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir.get(), "."));
  Loaded loaded;
  for (const std::string& uid : names) {
    // Killed before the first file or after the last one.
    if (::unlinkat(dir.get(), uid.c_str(), AT_REMOVEDIR) == 0) continue;
    auto stored = Load(dir.get(), uid);
    if (stored) {
      loaded.pods.push_back(std::move(*stored));
    } else {
      loaded.problems.push_back(StrCat("pod directory ", uid, ": ", stored.error().message()));
    }
  }
  // Who was never judged (killed before the first record) is judged after all that were.
  std::stable_partition(loaded.pods.begin(), loaded.pods.end(),
                        [](const StoredPod& pod) { return pod.memory.admission.has_value(); });
  return loaded;
}

}  // namespace holdfast::agent
