// SPDX-License-Identifier: Apache-2.0
// Who needs an image that somebody wants to remove. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/view/pod_view.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

// "container web of pod default/web-n1", "" when nobody does. A container that runs needs the image
// it runs. One that waits, is just being started or will be started again needs the image that its
// pod names: a pod is shown before it asks for its images, so none is taken away beneath a start.
std::string UserOfImage(const std::vector<PodPtr>& pods, const Image& image);

// What desired pods need, also of containers that have ended: after a reboot they start again, maybe
// without a registry. What no pod names is nobody's.
class NeededImages {
 public:
  explicit NeededImages(const std::vector<PodPtr>& pods);
  bool Has(const Image& image) const;

 private:
  void Add(const std::string& text);
  std::set<std::string> names_;  // normalised names, and ids
};

}  // namespace holdfast::agent
