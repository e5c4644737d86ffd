// SPDX-License-Identifier: Apache-2.0
// Who needs an image that somebody wants to remove. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/view/pod_view.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

// "container web of pod default/web-n1", "" when nobody does. A container that runs needs the image
// it runs. One that waits, is just being started or will be started again needs the image that its
// pod names: a pod is shown before it asks for its images, so none is taken away beneath a start.
std::string UserOfImage(const std::vector<PodPtr>& pods, const Image& image);

}  // namespace holdfast::agent
