// SPDX-License-Identifier: Apache-2.0
#include "agent/image_gc/image_collector.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// What an unfinished pull has left is gone on with within this time, or not at all.
constexpr std::chrono::hours kKeepPartial{24};
constexpr uint64_t kEverything = std::numeric_limits<uint64_t>::max();
// Once down to the low threshold, once everything.
constexpr int kRoomRounds = 2;

std::string NameOf(const Image& image) {
  return image.repo_tags.empty() ? image.id.value : image.repo_tags.front();
}

bool LacksRoom(const Error& error) {
  return error.code() == Code::kResourceExhausted && error.sys_errno() == ENOSPC;
}

}  // namespace

Result<void> ImageCollector::Start(std::chrono::milliseconds period) {
  return thread_.Start("image-gc", period, [this, period](const std::stop_token&) {
    Collect();
    return period;
  });
}

void ImageCollector::Collect() {
  const std::lock_guard hold(collecting_);
  const auto done = CollectOnce();
  if (!done) {
    parts_.log(StrCat("image garbage collection failed: ", done.error().message()));
    if (failed_before_) Tell("ImageGCFailed", done.error().message());
  }
  failed_before_ = !done;
}

Result<void> ImageCollector::CollectOnce() {
  const WallTime now = parts_.clock.Wall();
  RETURN_IF_ERROR(RemoveOld(now));
  RETURN_IF_ERROR(parts_.space.RemovePartial(kKeepPartial));
  return Shrink(now);
}

// Those that may go, in the order in which they do; those in use are noted as such.
std::vector<ImageUsage> ImageCollector::InOrder(const std::vector<ImageUsage>& images,
                                                WallTime now) {
  const auto needed = parts_.needed();
  std::vector<Digest> in_use;
  for (const ImageUsage& usage : images) {
    if (needed(usage.image)) in_use.push_back(usage.image.id);
  }
  // A full disk must not keep it from being emptied: only an order depends on it.
  if (auto noted = parts_.space.NoteUse(in_use, now); !noted) {
    parts_.log(StrCat("use of images: ", noted.error().message(), ", ignoring"));
  }
  return EvictionOrder(images, needed, now);
}

Result<void> ImageCollector::RemoveOld(WallTime now) {
  // Uncounted: an age needs no sizes, and counting takes long once.
  ASSIGN_OR_RETURN(const std::vector<ImageUsage> images,
                   parts_.space.Usage(ImageSpace::Parts::kNone));
  FreedImages freed;
  for (const ImageUsage& image : InOrder(images, now)) {
    if (!IsTooOld(image, parts_.config, now) || !RemoveOne(image, freed)) continue;
    ++counts_[static_cast<size_t>(Reason::kAge)];
    parts_.log(StrCat("image ", NameOf(image.image), " removed: not used for longer than ",
                      parts_.config.maximum_age.count(), " s"));
  }
  return freed.errors.empty() ? Result<void>() : Internal(freed.errors);
}

Result<void> ImageCollector::Shrink(WallTime now) {
  ASSIGN_OR_RETURN(const ImageDisk disk, parts_.space.Disk());
  if (disk.capacity == 0) {
    Error error = Internal("invalid capacity 0 on image filesystem");
    Tell("InvalidDiskCapacity", error.message());
    return error;
  }
  const uint64_t wanted = BytesToFree(disk, parts_.config);
  if (wanted == 0) return {};
  ASSIGN_OR_RETURN(const FreedImages freed, Free(wanted, now));
  if (!freed.errors.empty()) {
    return Internal(StrCat("wanted to free ", wanted, " bytes, but freed ", freed.bytes,
                           " bytes space with errors in image deletion: ", freed.errors));
  }
  if (freed.bytes >= wanted) return {};
  // The disk is full of something else than images that could go.
  Error error(Code::kResourceExhausted, TooLittleFreed(wanted, freed.bytes));
  Tell("FreeDiskSpaceFailed", error.message());
  return error;
}

Result<FreedImages> ImageCollector::Free(uint64_t wanted, WallTime now) {
  const RemovalWish wish{
      .partial_age = parts_.config.minimum_age,
      .bytes = wanted,
      .may_go = [&](const ImageUsage& image) { return MayGo(image, parts_.config, now); }};
  ASSIGN_OR_RETURN(FreedImages freed, Remove(wish, now));
  for (const Image& image : freed.images) {
    ++counts_[static_cast<size_t>(Reason::kSpace)];
    parts_.log(StrCat("image ", NameOf(image), " removed to make room"));
  }
  return freed;
}

// Unfinished content first, then images in their order, until so many bytes are free.
Result<FreedImages> ImageCollector::Remove(const RemovalWish& wish, WallTime now) {
  FreedImages freed;
  ASSIGN_OR_RETURN(const PartialContent partial, parts_.space.RemovePartial(wish.partial_age));
  freed.bytes = partial.bytes;
  ASSIGN_OR_RETURN(std::vector<ImageUsage> left, parts_.space.Usage(ImageSpace::Parts::kCounted));
  for (const ImageUsage& next : InOrder(left, now)) {
    if (freed.bytes >= wish.bytes) break;
    if (!wish.may_go(next)) continue;
    const uint64_t own = BytesOfItsOwn(next, left);
    if (!RemoveOne(next, freed)) continue;
    std::erase_if(left, [&](const ImageUsage& one) { return one.image.id == next.image.id; });
    freed.bytes += own;
  }
  return freed;
}

// False: it stays, since it is used after all, has gone already, or for an error that is noted.
bool ImageCollector::RemoveOne(const ImageUsage& image, FreedImages& freed) {
  const auto removed = parts_.images.Remove(image.image.id.value);
  if (removed) {
    freed.images.push_back(image.image);
    return true;
  }
  const Code code = removed.error().code();
  if (code == Code::kConflict || code == Code::kNotFound) return false;
  freed.errors += StrCat(freed.errors.empty() ? "" : "; ", removed.error().message());
  return false;
}

bool ImageCollector::MakeRoom() {
  const std::lock_guard hold(collecting_);
  const auto disk = parts_.space.Disk();
  if (!disk) return false;
  const uint64_t wanted = BytesToFree(*disk, parts_.config);
  const auto freed = Free(wanted == 0 ? kEverything : wanted, parts_.clock.Wall());
  if (!freed) {
    parts_.log(StrCat("room for a pull: ", freed.error().message()));
    return false;
  }
  if (!freed->errors.empty()) parts_.log(StrCat("room for a pull: ", freed->errors));
  return freed->bytes > 0 || !freed->images.empty();
}

Result<FreedImages> ImageCollector::Prune(const PruneWish& wish) {
  const std::lock_guard hold(collecting_);
  const RemovalWish removal{
      .partial_age = std::chrono::seconds(0),
      .bytes = kEverything,
      .may_go = [&](const ImageUsage& usage) { return IsPruned(usage.image, wish); }};
  return Remove(removal, parts_.clock.Wall());
}

void ImageCollector::Tell(const std::string& reason, const std::string& message) {
  parts_.events.AddEvent(NodeSubject(parts_.node_name), {true, reason, message, "", false});
}

Result<ImagesUsage> ImageCollector::Usage() {
  ASSIGN_OR_RETURN(const std::vector<ImageUsage> images,
                   parts_.space.Usage(ImageSpace::Parts::kCounted));
  ASSIGN_OR_RETURN(const PartialContent partial, parts_.space.Partial());
  return SummarizeUsage(images, parts_.needed(), partial);
}

Result<PulledImage> RoomMakingPuller::Pull(const PullRequest& request,
                                           const std::atomic<bool>& cancelled) {
  auto pulled = puller_.Pull(request, cancelled);
  for (int round = 0; round < kRoomRounds; ++round) {
    if (pulled || !LacksRoom(pulled.error()) || cancelled || !make_room_()) break;
    pulled = puller_.Pull(request, cancelled);
  }
  return pulled;
}

}  // namespace holdfast::agent
