// SPDX-License-Identifier: Apache-2.0
// FilePodInputs: the PodInputs of pods of the manifest directory on a node without an API server: its
// ConfigMaps and Secrets, and the variables of its Services. Nothing else is there, and nothing is
// asked: what is not in the directory is absent. Thread-safe; nothing here blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/objects/config_object.h"
#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"

namespace holdfast::agent {

// The Services of the directory. Thread-safe, and nothing of it blocks.
struct ServicesOfFiles {
  // The directory as it is now: a number that grows.
  std::function<uint64_t()> generation;
  // Once all Services of that generation are known, and from then on.
  std::function<std::optional<std::vector<std::string>>(const std::string& of_namespace, bool links,
                                                        uint64_t of_generation)>
      variables;
};

class FilePodInputs : public PodInputs {
 public:
  explicit FilePodInputs(ServicesOfFiles services) : services_(std::move(services)) {}

  // All that the directory has now, each name once. Before the first call nothing is known. Pods that
  // refer to what changed are told, on the calling thread.
  void SetObjects(std::vector<ConfigObjectPtr> objects);
  // There may be variables where there were none yet.
  void ServicesChanged();

  void Acquire(std::shared_ptr<const corev1::Pod> pod) override;
  void Release(const PodUid& uid) override;
  void Refresh(const PodUid& uid) override;
  // Also of what the pod does not refer to: everything is there already.
  ObjectInput Object(const PodUid& uid, const ObjectRef& ref) const override;
  TokenInput Token(const PodUid& uid, const std::string& audience,
                   std::chrono::seconds life) const override;
  // A pod waits for the Services of files that were there when it was acquired, and for none that come later: once it has
  // been told of variables it always is.
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& uid, const std::string& ns,
                                                           bool links) const override;
  // 0 of a pod none of whose volumes shows anything of the directory.
  uint64_t VersionOf(const PodUid& uid) const override;
  // `changed` does not run any more when this returns.
  void SetListener(std::function<void(const PodUid&)> changed) override;

 private:
  struct Known {
    std::map<ObjectRef, ObjectUse> uses;
    uint64_t version = 0;
    uint64_t since = 0;  // generation
  };

  std::set<ObjectRef> Replace(std::vector<ConfigObjectPtr> objects);
  void ForgetUses(const PodUid& uid, const Known& known);
  void Tell(const std::vector<PodUid>& pods);

  const ServicesOfFiles services_;
  std::mutex telling_;                           // held while the listener runs
  std::function<void(const PodUid&)> listener_;  // guarded by it

  mutable std::mutex mutex_;  // guards what follows
  bool complete_ = false;
  std::vector<ConfigObjectPtr> objects_;
  std::map<ObjectRef, std::shared_ptr<const ObjectData>> data_;  // of these
  std::map<PodUid, Known> pods_;
  std::map<ObjectRef, std::set<PodUid>> users_;
  mutable std::set<PodUid> awaiting_;  // were told of no variables yet
};

}  // namespace holdfast::agent
