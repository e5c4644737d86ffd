// SPDX-License-Identifier: Apache-2.0
// Announcer: answers for addresses on some interfaces, from a thread of its own, in the network
// namespace of the thread that started it. Leaves nothing behind: when it ends, nobody answers.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"
#include "netproxy/announce/segment.h"

namespace holdfast::netproxy::announce {

class Announcer {
 public:
  // One segment per element. `clock` is borrowed; `news` is called from the thread, without a lock.
  static Result<std::unique_ptr<Announcer>> Start(
      std::vector<SegmentOptions> segments, const Clock& clock,
      std::function<void(const SegmentNews& news)> news);
  ~Announcer();

  // These and no others. Does not block on the network.
  void SetAddresses(const std::set<IpAddress>& addresses);
  // By interface, then address.
  std::vector<AddressStatus> Status() const;

 private:
  Announcer(std::vector<SegmentOptions> segments, const Clock& clock, sys::Wakeup stop,
            std::function<void(const SegmentNews& news)> news);
  void Run();
  // False at the end.
  bool WaitForFrames(std::chrono::nanoseconds time) const;

  const Clock& clock_;
  const sys::Wakeup stop_;
  const std::function<void(const SegmentNews& news)> news_;
  mutable std::mutex mutex_;  // guards segments_
  std::vector<Segment> segments_;
  std::thread thread_;
};

}  // namespace holdfast::netproxy::announce
