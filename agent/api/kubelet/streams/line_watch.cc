// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/line_watch.h"

#include <poll.h>

namespace holdfast::agent::streams {
namespace {

constexpr std::chrono::milliseconds kLook{300};

bool HasLeft(int socket) {
  pollfd asked{socket, POLLRDHUP, 0};
  return ::poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

std::shared_ptr<LineWatch> LineWatch::Start(const boost::asio::any_io_executor& executor,
                                            std::chrono::milliseconds idle_limit,
                                            std::function<void()> gone) {
  std::shared_ptr<LineWatch> watch(new LineWatch(executor, idle_limit, std::move(gone)));
  watch->WaitForIdle();
  return watch;
}

LineWatch::LineWatch(const boost::asio::any_io_executor& executor,
                     std::chrono::milliseconds idle_limit, std::function<void()> gone)
    : idle_limit_(idle_limit),
      gone_(std::move(gone)),
      idle_(executor),
      look_(executor),
      moved_(std::chrono::steady_clock::now()) {}

void LineWatch::WaitForIdle() {
  idle_.expires_at(moved_ + idle_limit_);
  idle_.async_wait([self = shared_from_this()](const auto& error) {
    if (error || !self->gone_) return;
    if (std::chrono::steady_clock::now() - self->moved_ >= self->idle_limit_) return self->Gone();
    self->WaitForIdle();
  });
}

void LineWatch::NotReading(int socket) {
  socket_ = socket;
  if (!std::exchange(looking_, true)) LookSoon();
}

void LineWatch::LookSoon() {
  look_.expires_after(kLook);
  look_.async_wait([self = shared_from_this()](const auto& error) {
    self->looking_ = false;
    if (error || !self->gone_ || self->socket_ < 0) return;
    if (HasLeft(self->socket_)) return self->Gone();
    self->looking_ = true;
    self->LookSoon();
  });
}

void LineWatch::Gone() {
  const auto gone = std::exchange(gone_, nullptr);
  Stop();
  if (gone) gone();
}

void LineWatch::Stop() {
  gone_ = nullptr;
  idle_.cancel();
  look_.cancel();
}

}  // namespace holdfast::agent::streams
