// SPDX-License-Identifier: Apache-2.0
// ImageCollector: removes images that nothing needs: again and again on a thread of its own, when a
// pull finds no room, and when a person asks. What goes is decided in policy.h; the store itself
// refuses at the last moment what has come into use. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "agent/base/periodic_thread.h"
#include "agent/events/event_sink.h"
#include "agent/image_gc/policy.h"
#include "agent/image_gc/usage.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_space.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

// Borrowed, except what is a value.
struct ImageCollectorParts {
  ImageStore& images;
  ImageSpace& space;
  // What pods need right now.
  std::function<std::function<bool(const Image&)>()> needed;
  EventSink& events;
  const Clock& clock;
  std::string node_name;
  ImageGcConfig config;
  std::function<void(const std::string&)> log;  // from any thread
};

struct FreedImages {
  std::vector<Image> images;
  uint64_t bytes = 0;  // of images, and of what unfinished pulls had left
  std::string errors;  // why others stayed that should have gone; "" when none did
};

class ImageCollector {
 public:
  enum class Reason : uint8_t { kAge, kSpace };
  // As a kubelet's ImageGCPeriod.
  static constexpr std::chrono::minutes kPeriod{5};

  explicit ImageCollector(ImageCollectorParts parts) : parts_(std::move(parts)) {}

  // The first time after a period: by then it is known which pods there are.
  Result<void> Start(std::chrono::milliseconds period = kPeriod);

  // Notes what is in use, removes what is too old, and makes room above the high threshold. Tells an
  // event when it fails, for the general failure at the second time in a row.
  void Collect();
  // Down to the low threshold, or where the file system is not that full (it may lack inodes)
  // everything that nothing needs. False: nothing was removed.
  bool MakeRoom();
  Result<FreedImages> Prune(const PruneWish& wish);

  Result<ImagesUsage> Usage();

  uint64_t Collected(Reason reason) const { return counts_[static_cast<size_t>(reason)]; }

 private:
  struct RemovalWish {
    std::chrono::seconds partial_age;
    uint64_t bytes;  // enough
    std::function<bool(const ImageUsage&)> may_go;
  };
  Result<void> CollectOnce();
  std::vector<ImageUsage> InOrder(const std::vector<ImageUsage>& images, WallTime now);
  Result<void> RemoveOld(WallTime now);
  Result<void> Shrink(WallTime now);
  Result<FreedImages> Remove(const RemovalWish& wish, WallTime now);
  Result<FreedImages> Free(uint64_t wanted, WallTime now);
  bool RemoveOne(const ImageUsage& image, FreedImages& freed);
  void Tell(const std::string& reason, const std::string& message);

  const ImageCollectorParts parts_;
  std::array<std::atomic<uint64_t>, 2> counts_{};
  std::mutex collecting_;       // one at a time
  bool failed_before_ = false;  // guarded by it
  PeriodicThread thread_;
};

// A pull for which there is no room is tried again when room could be made.
class RoomMakingPuller : public ImagePuller {
 public:
  RoomMakingPuller(ImagePuller& puller, std::function<bool()> make_room)
      : puller_(puller), make_room_(std::move(make_room)) {}

  Result<PulledImage> Pull(const PullRequest& request, const std::atomic<bool>& cancelled) override;

 private:
  ImagePuller& puller_;
  const std::function<bool()> make_room_;
};

}  // namespace holdfast::agent
