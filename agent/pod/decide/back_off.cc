// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/back_off.h"

#include <algorithm>

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kImageCap{300};

bool Expired(const BackOff& back_off, const Finished& last) {
  return last.finished_at - back_off.updated_at > kBackOffReset;
}

std::chrono::seconds Grown(std::chrono::seconds delay, std::chrono::seconds cap) {
  return delay.count() == 0 ? std::min(kInitialBackOff, cap) : std::min(delay * 2, cap);
}

}  // namespace

BootTime RestartAllowedAt(BackOff& back_off, const Finished& last, WallTime wall, BootTime boot) {
  if (back_off.delay.count() == 0 || Expired(back_off, last)) return boot;
  if (back_off.not_before == BootTime{}) {
    // Wall time is looked at once; a clock step afterwards changes nothing.
    const std::chrono::nanoseconds delay = back_off.delay;
    const auto left =
        std::clamp(delay - (wall - last.finished_at), std::chrono::nanoseconds(0), delay);
    back_off.not_before = boot + left;
  }
  return back_off.not_before;
}

void NextRestartBackOff(BackOff& back_off, const Finished& last, std::chrono::seconds cap,
                        WallTime wall) {
  if (back_off.delay.count() != 0 && Expired(back_off, last)) back_off.delay = {};
  back_off.delay = Grown(back_off.delay, cap);
  back_off.updated_at = wall;
  back_off.not_before = {};
}

void NextImageBackOff(BackOff& back_off, WallTime wall, BootTime boot) {
  back_off.delay = Grown(back_off.delay, kImageCap);
  back_off.updated_at = wall;
  back_off.not_before = boot + back_off.delay;
}

}  // namespace holdfast::agent
