// SPDX-License-Identifier: Apache-2.0
// Which images a Node shows: the biggest first, 50 of them, each with five names at most (status.images). Pure.
#pragma once

#include <vector>

#include "agent/node/node_description.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

std::vector<NodeImage> ShownImages(const std::vector<Image>& images);

}  // namespace holdfast::agent
