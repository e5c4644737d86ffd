// SPDX-License-Identifier: Apache-2.0
// ImagePuller: images from registries into the ImageStore. Thread-safe; a pull blocks until it has
// ended. Source: feature-map 2.1.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast {

// Who asks a registry. Never in a log, an event or an error.
struct RegistryLogin {
  std::string username, password;
  auto operator<=>(const RegistryLogin&) const = default;
};

// What may be shown to a registry for a repository ("ghcr.io/org/app"), best first; each is tried
// in turn. None: the registry is asked without.
using RegistryLogins = std::function<std::vector<RegistryLogin>(const std::string& repository)>;

struct LayerProgress {
  std::string digest;
  uint64_t size = 0;   // as it comes
  uint64_t bytes = 0;  // of these here
  enum class State : uint8_t { kWaiting, kDownloading, kDownloaded, kUnpacking, kDone };
  State state = State::kWaiting;
};

struct PullProgress {
  bool waiting = false;  // for other pulls
  std::vector<LayerProgress> layers;
};

struct PullRequest {
  std::string reference;  // "nginx", "registry:5000/app@sha256:…"
  RegistryLogins logins;
  // On the caller's thread, a few times a second at most. May be empty.
  std::function<void(const PullProgress&)> progress;
  bool for_person = false;  // who waits for it, and is not held back by the limits of a rate
};

struct PulledImage {
  Image image;
  std::chrono::nanoseconds pulling{0};  // without the time that it waited for other pulls
  // Of the request's logins the one that the host was shown that had the manifest; nothing: it asked
  // for none.
  std::optional<RegistryLogin> login = {};
};

class ImagePuller {
 public:
  virtual ~ImagePuller() = default;
  // kInvalidArgument: malformed name, or a registry whose answers cannot be used; kNotFound: the
  // registry has no such image, or none for this machine; kPermissionDenied: it refuses;
  // kUnavailable: it is away, or `cancelled` was set. What was there before stays on any failure.
  // Who gets an image has been let in by its registry just now, also to one that is here.
  virtual Result<PulledImage> Pull(const PullRequest& request,
                                   const std::atomic<bool>& cancelled) = 0;
};

}  // namespace holdfast
