// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/session_loop.h"

#include <boost/asio/post.hpp>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kSessionWorkers = 16;  // dialling may wait some seconds for a listener

}  // namespace

SessionLoop::SessionLoop(size_t commands, size_t forwards)
    : workers_({.name = "sessions", .threads = kSessionWorkers}),
      places_{{"sessions", commands}, {"forwarded connections", forwards}},
      work_(boost::asio::make_work_guard(io_)) {}

SessionLoop::~SessionLoop() { Finish(); }

Result<void> SessionLoop::Start() {
  RETURN_IF_ERROR(workers_.Start());
  ASSIGN_OR_RETURN(thread_, sys::StartThread("sessions", [this] { io_.run(); }));
  return {};
}

DescriptorSession::Blocking SessionLoop::blocking() {
  return [this](std::function<void()> job) { workers_.Post(std::move(job)); };
}

Result<std::shared_ptr<void>> SessionLoop::Enter(SessionKind kind,
                                                 const std::shared_ptr<LoopSession>& session) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return Unavailable("the agent is stopping");
  Places& places = places_[static_cast<size_t>(kind)];
  if (places.taken == places.limit) {
    return Error(Code::kResourceExhausted,
                 StrCat("too many ", places.what, ": ", places.limit, " are open; try again"));
  }
  ++places.taken;
  std::erase_if(sessions_, [](const auto& each) { return each.expired(); });
  sessions_.push_back(session);
  return std::shared_ptr<void>(&places, [this](void* taken) {
    const std::lock_guard leaving(mutex_);
    --static_cast<Places*>(taken)->taken;
  });
}

void SessionLoop::EndAll() {
  std::vector<std::weak_ptr<LoopSession>> sessions;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    sessions.swap(sessions_);
  }
  boost::asio::post(io_, [sessions = std::move(sessions)] {
    for (const auto& each : sessions) {
      if (const auto session = each.lock()) session->AgentStops();
    }
  });
}

void SessionLoop::Finish() {
  workers_.Finish();
  work_.reset();
  // After what EndAll() has posted: a session that was let go would never end without it.
  boost::asio::post(io_, [this] { io_.stop(); });
  if (thread_.joinable()) thread_.join();
}

}  // namespace holdfast::agent::api
