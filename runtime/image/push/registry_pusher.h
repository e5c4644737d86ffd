// SPDX-License-Identifier: Apache-2.0
// RegistryPusher: the ImagePusher: a holdfast-fetch per push, the hosts of the registry as files name
// them, and the image store. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "holdfast/interfaces/image_pusher.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

struct PusherOptions {
  std::string helper;                           // absolute path of holdfast-fetch
  std::vector<std::string> environment;         // of the helper: ProxyEnvironment()
  std::string hosts_directory;                  // "" for none
  const std::atomic<bool>* stopping = nullptr;  // set: all pushes end; outlives the pusher
  // An upload that stands still for so long is begun anew.
  std::chrono::seconds stall{30};
  ImageLimits limits;
};

class RegistryPusher : public ImagePusher {
 public:
  // `store` outlives it.
  RegistryPusher(DiskImageStore& store, PusherOptions options)
      : store_(store), options_(std::move(options)) {}
  Result<PushedImage> Push(const PushRequest& request, const std::atomic<bool>& cancelled) override;

 private:
  Result<PushedImage> PushImage(const StoredImage& image, const Reference& destination,
                                const PushRequest& request, const std::atomic<bool>& cancelled);

  DiskImageStore& store_;
  const PusherOptions options_;
};

}  // namespace holdfast::runtime
