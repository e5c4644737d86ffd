// SPDX-License-Identifier: Apache-2.0
// ArrivingLayers: the layers of an image whose blobs are just being fetched. What has come is
// unpacked on a thread of its own, lowest first, while the rest still comes. The public functions
// are for the one thread that fetches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/store/archive_reader.h"

namespace holdfast::runtime {

class ArrivingLayers {
 public:
  // Stages all layers of the image, each after `next` has returned for its number.
  using Next = std::function<Result<void>(size_t layer)>;
  using Stage = std::function<Result<void>(StagedImage image, const Next& next,
                                           const Unpacker::Meanwhile& meanwhile)>;

  explicit ArrivingLayers(Stage stage) : stage_(std::move(stage)) {}
  // Gives up what is not done, and waits until it is given up.
  ~ArrivingLayers();
  ArrivingLayers(const ArrivingLayers&) = delete;
  ArrivingLayers& operator=(const ArrivingLayers&) = delete;

  // Once: which layers there are to be. None of their blobs is looked at before it has arrived.
  Result<void> Expect(StagedImage image);
  // How many bytes of blobs are still to be written: no layer may take their room.
  void SetComing(uint64_t bytes) { coming_ = bytes; }
  // The blob is whole and its digest checked: in the ingest directory, or in the store.
  void Arrived(const Digest& blob);
  // The layer that is being unpacked, nothing before the first; why the unpacking has failed.
  Result<std::optional<size_t>> At();
  // Until the last one is unpacked. `moved` is called a few times a second and may end the waiting.
  Result<void> Finish(const std::function<Result<void>()>& moved);

 private:
  Result<void> AwaitLayer(size_t layer);

  const Stage stage_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Digest> blobs_;  // of the layers; written before the thread starts
  std::set<Digest> arrived_;
  std::optional<size_t> at_;
  std::optional<Result<void>> end_;
  std::atomic<bool> given_up_ = false;
  std::atomic<uint64_t> coming_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::runtime
