// SPDX-License-Identifier: Apache-2.0
// Image, ImageConfig and the progress of pulls between our types and the API's. Pure.
#pragma once

#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::api {

void FillImage(const Image& from, bool with_environment, v1::Image& to);
ImageConfig ReadImageConfig(const v1::ImageConfig& from);
void FillProgress(const PullProgress& from, v1::PullImageResponse::Progress& to);

}  // namespace holdfast::agent::api
