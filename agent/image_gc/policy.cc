// SPDX-License-Identifier: Apache-2.0
#include "agent/image_gc/policy.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr uint32_t kWhole = 100;

uint64_t Percent(uint64_t whole, uint32_t percent) {
  return whole / kWhole * percent + whole % kWhole * percent / kWhole;
}

WallTime NotAfter(WallTime time, WallTime now) { return std::min(time, now); }

}  // namespace

std::vector<ImageUsage> EvictionOrder(const std::vector<ImageUsage>& images,
                                      const std::function<bool(const Image&)>& needed,
                                      WallTime now) {
  std::vector<ImageUsage> order;
  for (const ImageUsage& usage : images) {
    if (!usage.image.pinned && !needed(usage.image)) order.push_back(usage);
  }
  std::sort(order.begin(), order.end(), [now](const ImageUsage& a, const ImageUsage& b) {
    return std::tuple(NotAfter(a.used, now), NotAfter(a.detected, now), a.image.id) <
           std::tuple(NotAfter(b.used, now), NotAfter(b.detected, now), b.image.id);
  });
  return order;
}

bool MayGo(const ImageUsage& image, const ImageGcConfig& config, WallTime now) {
  // That it came far in the future is a clock that was set back: how old it is nobody knows.
  const bool set_back = image.detected > now + config.minimum_age;
  return set_back || now - image.detected >= config.minimum_age;
}

bool IsTooOld(const ImageUsage& image, const ImageGcConfig& config, WallTime now) {
  if (config.maximum_age.count() == 0) return false;
  const WallTime needed = std::max(image.used, image.detected);
  return needed <= now && now - needed > config.maximum_age;
}

uint64_t BytesToFree(const ImageDisk& disk, const ImageGcConfig& config) {
  if (disk.capacity == 0) return 0;
  const uint64_t available = std::min(disk.available, disk.capacity);
  // As a kubelet rounds it.
  const auto used = static_cast<uint32_t>(
      kWhole - static_cast<uint64_t>(static_cast<__uint128_t>(available) * kWhole / disk.capacity));
  if (config.high_percent == kWhole || used < config.high_percent) return 0;
  const uint64_t wanted = Percent(disk.capacity, kWhole - config.low_percent);
  return wanted > available ? wanted - available : 0;
}

uint64_t BytesOfItsOwn(const ImageUsage& image, const std::vector<ImageUsage>& others) {
  uint64_t bytes = 0;
  for (const auto& [part, size] : image.parts) {
    const bool shared = std::ranges::any_of(others, [&](const ImageUsage& other) {
      return other.image.id != image.image.id && other.parts.contains(part);
    });
    if (!shared) bytes += size;
  }
  return bytes;
}

bool IsPruned(const Image& image, const PruneWish& wish) {
  if (!wish.all && !image.repo_tags.empty()) return false;
  return wish.until.IsZero() || image.created < wish.until;
}

std::string TooLittleFreed(uint64_t wanted, uint64_t freed) {
  return StrCat("Failed to garbage collect required amount of images. Attempted to free ", wanted,
                " bytes, but only found ", freed, " bytes eligible to free.");
}

}  // namespace holdfast::agent
