// SPDX-License-Identifier: Apache-2.0
// Image and ImageConfig between the store's types and the API's. Pure.
#pragma once

#include "holdfast/interfaces/image_store.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::api {

void FillImage(const Image& from, bool with_environment, v1::Image& to);
ImageConfig ReadImageConfig(const v1::ImageConfig& from);

}  // namespace holdfast::agent::api
