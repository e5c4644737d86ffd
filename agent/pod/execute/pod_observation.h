// SPDX-License-Identifier: Apache-2.0
// PodObservation: what there is of a pod now, as a turn of it goes by: what runtime, network, image store, logs, prober
// and the API server's objects say. It waits for nothing but the kernel's quick answers. Of one turn, on its thread.
#pragma once

#include <string>

#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/decide/types.h"
#include "agent/pod/operate/services.h"
#include "agent/pod/state/paths.h"

namespace holdfast::agent {

class PodObservation {
 public:
  // `pod` is as it is wanted. `inputs`: null where there is nothing that the pod could be made from. All are borrowed.
  PodObservation(PodServices& services, const PodPaths& paths, const corev1::Pod& pod,
                 const PodMemory& memory, PodInputs* inputs)
      : services_(services), paths_(paths), pod_(pod), memory_(memory), inputs_(inputs) {}

  // Containers, sandbox and network; `facts.ended` is filled in already.
  void LookAtRuntime(PodFacts& facts);
  void LookAtInputs(PodFacts& facts) const;
  // With what is known of secrets by then.
  void LookAtImages(PodFacts& facts) const;

  // A log was not written yet: it wants to be looked at soon.
  bool look_again() const { return look_again_; }

 private:
  ContainerFact Look(const ObservedContainer& observed);
  bool WantsTail(const std::string& container) const;
  void LetLogSettle(ContainerFact& fact);
  bool IsMade(const PodFacts& facts) const;
  bool AddressesStand() const;
  bool HasRunOnce(const SpecContainer& c) const;
  ImageFact LookAtImage(const std::string& reference) const;
  bool MayUse(const std::string& reference, const Image& image) const;

  PodServices& services_;
  const PodPaths& paths_;
  const corev1::Pod& pod_;
  const PodMemory& memory_;
  PodInputs* const inputs_;
  bool look_again_ = false;
};

}  // namespace holdfast::agent
