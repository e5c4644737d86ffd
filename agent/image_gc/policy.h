// SPDX-License-Identifier: Apache-2.0
// Which images go, and in which order. Pure; times are wall time, a clock that was set back makes
// nothing older or younger than it is. Source: kubelet's pkg/kubelet/images; feature-map 1.13.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "holdfast/base/clock.h"
#include "holdfast/interfaces/image_space.h"

namespace holdfast::agent {

// Those that nothing needs and nothing pins: who was needed longest ago first, of those that never
// were (or at the same time) the one that came first.
std::vector<ImageUsage> EvictionOrder(const std::vector<ImageUsage>& images,
                                      const std::function<bool(const Image&)>& needed,
                                      WallTime now);

// For want of room: not before it has been here for the minimum age.
bool MayGo(const ImageUsage& image, const ImageGcConfig& config, WallTime now);
// Not needed for longer than the maximum age, whatever room there is.
bool IsTooOld(const ImageUsage& image, const ImageGcConfig& config, WallTime now);

// To come down to the low threshold; 0 below the high one.
uint64_t BytesToFree(const ImageDisk& disk, const ImageGcConfig& config);

// The bytes that its removal gives back: of parts that none of `others` has.
uint64_t BytesOfItsOwn(const ImageUsage& image, const std::vector<ImageUsage>& others);

// What a person asked to be removed.
struct PruneWish {
  bool all = false;  // also what has a name
  WallTime until;    // made before; zero: whenever
};
bool IsPruned(const Image& image, const PruneWish& wish);

// "Failed to garbage collect required amount of images. …", as a kubelet says it.
std::string TooLittleFreed(uint64_t wanted, uint64_t freed);

}  // namespace holdfast::agent
