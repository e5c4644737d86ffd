// SPDX-License-Identifier: Apache-2.0
// PodStateStore: what the agent must know of its pods when it starts again: by the UID of each the
// pod as admitted (one protobuf Pod) and its record (record.h), in one journal, and the pod's
// directory (drawing in paths.h). Unless Sync() was called they are not put on the disk for good:
// after a power cut no container runs any more, and what is lost is only a forgotten restart count.
// Thread-safe for different pods.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/pod/decide/types.h"
#include "agent/pod/state/paths.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/journal.h"

namespace holdfast::agent {

struct FormerPod;
struct FormerPods;

struct StoredPod {
  std::shared_ptr<const corev1::Pod> pod;
  PodMemory memory;
};

class PodStateStore {
 public:
  // Makes the directories, and takes over what a former release kept (former_pods.h). One at a time
  // has the journal: who has the root's lock (root_lock.h). kUnsupported: a newer release has
  // written it.
  static Result<std::unique_ptr<PodStateStore>> Open(model::Instance instance);

  PodPaths Paths(const corev1::Pod& pod) const;
  // The pod, then its directory. Idempotent.
  Result<void> SavePod(const corev1::Pod& pod);
  Result<void> SaveRecord(const corev1::Pod& pod, const std::string& record);
  // What of all pods was saved before the call is on the disk.
  Result<void> Sync() { return journal_->Sync(); }
  // What the pod was made from, and how it was last known (agent/objects/kept_inputs.h), in its
  // directory.
  Result<void> SaveInputs(const corev1::Pod& pod, const std::string& kept);
  // kNotFound: there is none.
  Result<std::string> LoadInputs(const PodUid& uid) const;
  // The directory, then what was saved, so that a removal that is cut short goes on at the next
  // start. Returns "" or what could only be set aside (sys/tree.h), and why.
  Result<std::string> Remove(const corev1::Pod& pod);

  struct Loaded {
    std::vector<StoredPod> pods;
    std::vector<std::string> problems;  // what could not be read, and why
  };
  // What there was when it was opened, once.
  Result<Loaded> LoadAll();

  // What there was when it was opened, as a release without the journal reads it (former_pods.h).
  // Nothing else may follow.
  Result<void> LeaveAsFiles();

 private:
  using Values = std::map<std::string, std::string, std::less<>>;

  PodStateStore(model::Instance instance, DirFd pods_dir, sys::Journal::Opened opened)
      : instance_(std::move(instance)),
        pods_dir_(std::move(pods_dir)),
        journal_(std::move(opened.journal)),
        found_(std::move(opened.values)),
        problems_(std::move(opened.problems)) {}
  void TakeOver(FormerPods former);
  Result<void> TakeOver(FormerPod former);
  Result<StoredPod> Load(const std::string& uid) const;
  Result<void> RemoveEmptyDirectories();

  model::Instance instance_;
  DirFd pods_dir_;
  std::unique_ptr<sys::Journal> journal_;
  Values found_;  // until LoadAll()
  std::vector<std::string> problems_;
};

}  // namespace holdfast::agent
