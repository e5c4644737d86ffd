// SPDX-License-Identifier: Apache-2.0
// HeldInputs: what an API server or the manifest directory has for a pod (ConfigMaps, Secrets, tokens,
// claims), asked for from the first sight of the pod until its containers are gone. A pod of a file
// under an API server is made from nothing of the kind and holds none. One thread at a time.
#pragma once

#include <memory>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

class PodInputs;

class HeldInputs {
 public:
  // `inputs` is borrowed; null: the pod has none.
  explicit HeldInputs(PodInputs* inputs) : inputs_(inputs) {}

  PodInputs* get() const { return inputs_; }
  bool held() const { return pod_ != nullptr; }
  void Acquire(std::shared_ptr<const corev1::Pod> pod);
  // As Acquire(), if they are held.
  void Renew(std::shared_ptr<const corev1::Pod> pod);
  // Its secrets are asked for anew.
  void Refresh() const;
  void Release();

 private:
  PodInputs* const inputs_;
  std::shared_ptr<const corev1::Pod> pod_;  // that they are held for
};

}  // namespace holdfast::agent
