// SPDX-License-Identifier: Apache-2.0
// LastKnownInputs: PodInputs of an API server, and what is kept on the disk (kept_inputs.h) while nothing was heard of
// that since the agent began, after kPatience: before, a pod that the server may have deleted meanwhile waits. What the
// server says always wins. Thread-safe. Reading what is kept blocks for as long as the disk does, once per pod that needs it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/objects/kept_inputs.h"
#include "agent/objects/pod_inputs.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

class LastKnownInputs : public PodInputs {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  // What is kept of a pod; kNotFound: nothing.
  using Read = std::function<Result<std::string>(const PodUid&)>;

  // `inputs` and `clock` are borrowed. `heard`: the server has said which pods there are.
  LastKnownInputs(PodInputs& inputs, const Clock& clock, Read read, std::function<bool()> heard,
                  std::function<void(const std::string&)> log);

  void Acquire(std::shared_ptr<const corev1::Pod> pod) override;
  void Release(const PodUid& uid) override;
  void Refresh(const PodUid& uid) override { inputs_.Refresh(uid); }
  ObjectInput Object(const PodUid& uid, const ObjectRef& ref) const override;
  // Of a pod of which something is kept: kAbsent where there is none to be had. It starts without.
  TokenInput Token(const PodUid& uid, const std::string& audience,
                   std::chrono::seconds life) const override;
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& of, const std::string& ns,
                                                           bool links) const override;
  uint64_t VersionOf(const PodUid& uid) const override { return inputs_.VersionOf(uid); }
  void SetListener(std::function<void(const PodUid&)> changed) override {
    inputs_.SetListener(std::move(changed));
  }

 private:
  struct Entry {
    std::string of_namespace;
    bool links = true;
    BootTime since;
    bool read = false;
    std::optional<KeptInputs> kept;
  };

  bool IsOverdue(const Entry& entry) const { return clock_.Boot() - entry.since >= kPatience; }
  // Where something is kept that is to stand in for `state`, now or soon.
  const KeptInputs* StandIn(const PodUid& uid, InputState state, bool& soon) const;
  const KeptInputs* KeptOf(const PodUid& uid, Entry& entry) const;

  PodInputs& inputs_;
  const Clock& clock_;
  const Read read_;
  const std::function<bool()> heard_;
  const std::function<void(const std::string&)> log_;

  mutable std::mutex mutex_;  // what follows
  mutable std::map<PodUid, Entry> entries_;
};

}  // namespace holdfast::agent
