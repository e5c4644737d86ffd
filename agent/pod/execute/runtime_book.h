// SPDX-License-Identifier: Apache-2.0
// RuntimeBook: what the runtime showed last, by pod, so that one pod's work does not list all
// containers of the node. Thread-safe.
//
// Workers write down what they do (Started, Removed, …); Refresh() asks the runtime. A pod that was
// written about while the runtime was being asked keeps what the worker wrote, and Refresh says
// that it has to be called again.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "holdfast/interfaces/container_runtime.h"

namespace holdfast::agent {

class RuntimeBook {
 public:
  struct Sandbox {
    bool exists = false;
    bool ready = false;
    bool operator==(const Sandbox&) const = default;
  };

  struct Refreshed {
    std::vector<PodUid> changed;
    bool again = false;
  };
  Result<Refreshed> Refresh(ContainerRuntime& runtime);

  std::vector<ObservedContainer> Containers(const PodUid& uid) const;
  Sandbox SandboxOf(const PodUid& uid) const;
  // Every pod of which anything is there.
  std::set<PodUid> Pods() const;

  void Started(const ObservedContainer& container);
  void Removed(const PodUid& uid, const ContainerId& id);
  void SandboxMade(const PodUid& uid);
  void SandboxRemoved(const PodUid& uid);

 private:
  struct Page {
    std::vector<ObservedContainer> containers;
    Sandbox sandbox;
    uint64_t written = 0;  // number of the last write by a worker
    bool SameFacts(const Page& other) const {
      return containers == other.containers && sandbox == other.sandbox;
    }
    bool IsEmpty() const { return containers.empty() && !sandbox.exists; }
  };

  mutable std::mutex mutex_;
  uint64_t writes_ = 0;
  std::map<PodUid, Page> pages_;
};

}  // namespace holdfast::agent
