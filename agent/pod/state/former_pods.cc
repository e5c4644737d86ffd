// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/former_pods.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kPodLimit = 16ull << 20;
constexpr size_t kRecordLimit = 4ull << 20;
constexpr mode_t kDirMode = 0750;
constexpr mode_t kFileMode = 0600;
constexpr char kPodFile[] = "pod.pb";
constexpr char kRecordFile[] = "record.json";

Result<std::optional<FormerPod>> ReadFormerPod(int pods_dir, const std::string& uid) {
  auto pod = sys::ReadFileAt(pods_dir, StrCat(uid, "/", kPodFile), kPodLimit);
  if (!pod && pod.error().code() == Code::kNotFound) return std::nullopt;
  if (!pod) return std::move(pod.error());
  FormerPod former{uid, std::move(*pod), std::nullopt};
  auto record = sys::ReadFileAt(pods_dir, StrCat(uid, "/", kRecordFile), kRecordLimit);
  if (record) {
    former.record = std::move(*record);
  } else if (record.error().code() != Code::kNotFound) {
    return std::move(record.error());
  }
  return former;
}

}  // namespace

FormerPods ReadFormerPods(int pods_dir) {
  FormerPods former;
  const auto names = sys::ListDirAt(pods_dir, ".");
  if (!names) {
    former.problems.push_back(names.error().message());
    return former;
  }
  for (const std::string& uid : *names) {
    auto pod = ReadFormerPod(pods_dir, uid);
    if (!pod) {
      former.problems.push_back(
          StrCat("pod directory ", uid, ": ", pod.error().message(), ", left alone"));
    } else if (*pod) {
      for (const char* name : {kPodFile, kRecordFile}) {
        former.written_at =
            std::max(former.written_at, sys::ChangedAt(pods_dir, StrCat(uid, "/", name)));
      }
      former.pods.push_back(std::move(**pod));
    }
  }
  return former;
}

Result<void> RemoveFormerPod(int pods_dir, const std::string& uid) {
  RETURN_IF_ERROR(sys::RemoveFileAt(pods_dir, StrCat(uid, "/", kRecordFile)));
  return sys::RemoveFileAt(pods_dir, StrCat(uid, "/", kPodFile));
}

Result<void> WriteFormerPod(int pods_dir, const FormerPod& pod) {
  ASSIGN_OR_RETURN(const DirFd dir, sys::MakeDirs(pods_dir, pod.uid, kDirMode));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir.get(), kPodFile, pod.pod, kFileMode));
  if (!pod.record) return {};
  return sys::WriteFileAtomicAt(dir.get(), kRecordFile, *pod.record, kFileMode);
}

}  // namespace holdfast::agent
