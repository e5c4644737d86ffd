// SPDX-License-Identifier: Apache-2.0
// One image of the store to the host of a registry: blobs first, then the manifest, byte by byte as it
// came, so that its digest stays. Single-thread.
#pragma once

#include <functional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_pusher.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/pull/registry_client.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

struct PushPlace {
  RegistryClient& client;
  Origin& origin;
  PushProgress& progress;  // kept up to date
  std::function<void()> moved;
};

// kInvalidArgument: `destination` names another digest than the manifest's.
Result<PushedImage> PushTo(const PushPlace& place, const StoredImage& image,
                           const Reference& destination, const ImageLimits& limits);

}  // namespace holdfast::runtime
