// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/announcer.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::netproxy::announce {

Announcer::Announcer(std::vector<SegmentOptions> segments, const Clock& clock, sys::Wakeup stop,
                     std::function<void(const SegmentNews& news)> news)
    : clock_(clock), stop_(std::move(stop)), news_(std::move(news)) {
  for (SegmentOptions& options : segments) segments_.emplace_back(std::move(options), clock);
}

Result<std::unique_ptr<Announcer>> Announcer::Start(
    std::vector<SegmentOptions> segments, const Clock& clock,
    std::function<void(const SegmentNews& news)> news) {
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  std::unique_ptr<Announcer> made(
      new Announcer(std::move(segments), clock, std::move(stop), std::move(news)));
  ASSIGN_OR_RETURN(made->thread_, sys::StartThread("announcer", [a = made.get()] { a->Run(); }));
  return made;
}

Announcer::~Announcer() {
  stop_.Set();
  if (thread_.joinable()) thread_.join();
}

void Announcer::SetAddresses(const std::set<IpAddress>& addresses) {
  const std::lock_guard lock(mutex_);
  for (Segment& segment : segments_) segment.SetAddresses(addresses);
}

std::vector<AddressStatus> Announcer::Status() const {
  std::vector<AddressStatus> out;
  const std::lock_guard lock(mutex_);
  for (const Segment& segment : segments_) {
    const auto status = segment.Status();
    out.insert(out.end(), status.begin(), status.end());
  }
  return out;
}

bool Announcer::WaitForFrames(std::chrono::nanoseconds time) const {
  std::vector<pollfd> polls = {{stop_.fd(), POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    for (const Segment& segment : segments_) {
      for (const int fd : segment.fds()) polls.push_back({fd, POLLIN, 0});
    }
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  ::poll(polls.data(), polls.size(), static_cast<int>(std::max<int64_t>(wait, 0)));
  return polls.front().revents == 0;
}

void Announcer::Run() {
  BootTime tick_at = clock_.Boot();
  while (WaitForFrames(tick_at - clock_.Boot())) {
    std::vector<SegmentNews> news;
    {
      const std::lock_guard lock(mutex_);
      const bool tick = clock_.Boot() >= tick_at;
      for (Segment& segment : segments_) {
        segment.Receive();
        if (tick) segment.Tick();
        for (SegmentNews& one : segment.TakeNews()) news.push_back(std::move(one));
      }
      if (tick) tick_at = clock_.Boot() + kTickEvery;
    }
    for (const SegmentNews& one : news) news_(one);
  }
}

}  // namespace holdfast::netproxy::announce
