// SPDX-License-Identifier: Apache-2.0
// PodMemory as a versioned JSON text, and the two files of a pod's directory.
// A record of an unknown version or a damaged one is an error, never a guess.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/pod/decide/types.h"
#include "agent/pod/state/paths.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

std::string EncodeRecord(const PodMemory& memory);
Result<PodMemory> DecodeRecord(const std::string& text);

struct StoredPod {
  std::shared_ptr<const corev1::Pod> pod;
  PodMemory memory;
};

// The pods' directories below Instance::PodsDir(). Each file is replaced atomically but, unless
// `durable`, not synced: after a power cut no container runs any more and a torn record is only a
// forgotten restart count. Thread-safe for different pods.
class PodStateStore {
 public:
  explicit PodStateStore(model::Instance instance) : instance_(std::move(instance)) {}

  PodPaths Paths(const corev1::Pod& pod) const;
  // Makes the pod's directory and writes pod.pb. Idempotent.
  Result<void> SavePod(const corev1::Pod& pod);
  // For good: the file that SavePod wrote, and that it is there.
  Result<void> SyncPod(const corev1::Pod& pod);
  Result<void> SaveRecord(const corev1::Pod& pod, const std::string& record, bool durable = false);
  // What the pod was made from, and how it was last known (agent/objects/kept_inputs.h). It goes with the directory.
  Result<void> SaveInputs(const corev1::Pod& pod, const std::string& kept);
  // kNotFound: there is none.
  Result<std::string> LoadInputs(const PodUid& uid) const;
  // The directory, with everything that is left in it; pod.pb last, so that a removal that is cut
  // short goes on at the next start. Returns what could only be set aside (sys/tree.h), and why.
  Result<std::vector<std::string>> Remove(const corev1::Pod& pod);

  struct Loaded {
    std::vector<StoredPod> pods;
    std::vector<std::string> problems;  // directories that could not be read, and why
  };
  Result<Loaded> LoadAll();

 private:
  Result<StoredPod> Load(int pods_dir, const std::string& uid);

  model::Instance instance_;
};

}  // namespace holdfast::agent
