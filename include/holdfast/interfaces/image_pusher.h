// SPDX-License-Identifier: Apache-2.0
// ImagePusher: images of the ImageStore to registries. Thread-safe; a push blocks until it has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast {

struct PushedLayer {
  std::string digest;
  uint64_t size = 0;   // as it goes
  uint64_t bytes = 0;  // of these sent
  enum class State : uint8_t {
    kWaiting,
    kUploading,
    kDone,
    kPresent,  // the registry had it
    kMounted,  // taken over from another repository of the registry
    kForeign,  // its type says that it is not to be handed on
  };
  State state = State::kWaiting;
};

struct PushProgress {
  std::vector<PushedLayer> layers;
};

struct PushRequest {
  std::string reference;    // as ImageStore::Get takes it
  std::string destination;  // "registry:5000/app:1"; "": the name that it was asked for by
  RegistryLogins logins;
  // On the caller's thread, a few times a second at most. May be empty.
  std::function<void(const PushProgress&)> progress;
};

struct PushedImage {
  std::string name;    // that it has there
  std::string digest;  // "docker.io/library/app@sha256:…", of the manifest
  uint64_t size_bytes = 0;
  bool was_there = false;  // the name meant the same before
  // The index that the store's name stands for: what went is the one image of it that is here.
  std::optional<Digest> index;
};

class ImagePusher {
 public:
  virtual ~ImagePusher() = default;
  // kNotFound: it is not here; kInvalidArgument: malformed name, or answers that cannot be used;
  // kPermissionDenied: the registry refuses; kUnavailable: it is away, or `cancelled` was set.
  // Before it has succeeded the name means there what it meant before.
  virtual Result<PushedImage> Push(const PushRequest& request,
                                   const std::atomic<bool>& cancelled) = 0;
};

}  // namespace holdfast
