// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/arriving_layers.h"

#include <chrono>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

constexpr std::chrono::milliseconds kMovedEach{100};

}  // namespace

ArrivingLayers::~ArrivingLayers() {
  {
    const std::lock_guard hold(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<void> ArrivingLayers::Expect(StagedImage image) {
  blobs_ = image.layers;
  ASSIGN_OR_RETURN(
      thread_, sys::StartThread("image-unpack", [this, image = std::move(image)]() mutable {
        auto end = stage_(std::move(image), [this](size_t layer) { return AwaitLayer(layer); },
                          {[this] { return given_up_.load(); }, [this] { return coming_.load(); }});
        const std::lock_guard hold(mutex_);
        end_.emplace(std::move(end));
        changed_.notify_all();
      }));
  return {};
}

void ArrivingLayers::Arrived(const Digest& blob) {
  const std::lock_guard hold(mutex_);
  arrived_.insert(blob);
  changed_.notify_all();
}

Result<void> ArrivingLayers::AwaitLayer(size_t layer) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return given_up_ || arrived_.contains(blobs_[layer]); });
  if (given_up_) return Unavailable("the unpacking of layers was given up");
  at_ = layer;
  return {};
}

Result<std::optional<size_t>> ArrivingLayers::At() {
  const std::lock_guard hold(mutex_);
  if (end_ && !*end_) return end_->error();
  return at_;
}

Result<void> ArrivingLayers::Finish(const std::function<Result<void>()>& moved) {
  while (true) {
    RETURN_IF_ERROR(moved());
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kMovedEach, [this] { return end_.has_value(); })) return *end_;
  }
}

}  // namespace holdfast::runtime
