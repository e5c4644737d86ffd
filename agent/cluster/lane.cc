// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/asio/post.hpp>
#include <random>

#include "agent/cluster/lane_internal.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace transport = runtime::http;
using std::chrono::milliseconds;

// Up to a quarter more, so that nodes do not come back in step.
milliseconds Spread(milliseconds delay) {
  thread_local std::minstd_rand random(
      static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return delay + milliseconds(random() % static_cast<uint64_t>(delay.count() / 4 + 1));
}

}  // namespace

Lane::Lane(asio::io_context& io, LaneHost& host, LaneOptions options)
    : io_(io), host_(host), options_(options), dial_again_(io), back_off_(options.first_back_off) {}

Lane::~Lane() {
  *alive_ = false;
  for (const CallPtr& call : running_) call->Forget();
  for (const Entry& entry : connections_) entry.connection->Close(Unavailable("the client ends"));
}

void Lane::Add(const CallPtr& call) {
  waiting_.push_back(call);
  Pump();
}

void Lane::Again(const CallPtr& call) {
  running_.erase(call);
  waiting_.push_front(call);
  PumpSoon();
}

void Lane::Remove(const CallPtr& call) {
  if (running_.erase(call) == 0) std::erase(waiting_, call);
  PumpSoon();
}

void Lane::Answered() {
  back_off_ = options_.first_back_off;
  next_dial_ = {};
  trouble_.clear();
  if (dial_waits_) dial_again_.cancel();  // its handler goes on at once
}

void Lane::Abort(const Error& why) {
  const std::set<CallPtr> running = running_;
  const std::deque<CallPtr> waiting = waiting_;
  const std::vector<Entry> connections = std::exchange(connections_, {});
  dialling_.reset();
  Answered();
  for (const CallPtr& call : running) call->Abort(why);
  for (const CallPtr& call : waiting) call->Abort(why);
  for (const Entry& entry : connections) entry.connection->Close(why);
}

void Lane::Retire(const transport::Connection* connection, milliseconds age) {
  for (const Entry& entry : connections_) {
    const bool old = std::chrono::steady_clock::now() - entry.opened >= age;
    if (entry.connection.get() == connection && old) entry.connection->Drain();
  }
}

bool Lane::RetireOneBefore(uint64_t generation) {
  const auto found =
      std::find_if(connections_.begin(), connections_.end(), [&](const Entry& entry) {
        return entry.generation < generation && entry.connection->usable();
      });
  if (found == connections_.end()) return false;
  const auto connection = found->connection;
  connection->Drain();
  const std::set<CallPtr> running = running_;
  for (const CallPtr& call : running) {
    if (call->connection() == connection.get()) call->EndInOrder();
  }
  return true;
}

size_t Lane::http1_watches() const {
  return static_cast<size_t>(
      std::count_if(running_.begin(), running_.end(), [](const CallPtr& call) {
        return call->is_watch() && call->connection() != nullptr &&
               !call->connection()->multiplexed();
      }));
}

// After the turn of the connection or the call that it came from.
void Lane::PumpSoon() {
  if (pump_posted_) return;
  pump_posted_ = true;
  asio::post(io_, [this, alive = alive_] {
    if (!*alive) return;
    pump_posted_ = false;
    Pump();
  });
}

void Lane::Pump() {
  Prune();
  while (!waiting_.empty()) {
    const Entry* entry = FindRoom();
    if (entry == nullptr) break;
    const CallPtr call = waiting_.front();
    waiting_.pop_front();
    Begin(*entry, call);
  }
  if (!waiting_.empty() && MayDial()) DialSoon();
}

void Lane::Begin(const Entry& entry, const CallPtr& call) {
  running_.insert(call);
  if (call->is_watch() && !entry.connection->multiplexed() && !host_.MayWatchByHttp1()) {
    return call->Abort(
        Error(Code::kResourceExhausted,
              "the server speaks HTTP/1.1 only, and there are as many watches as may be"));
  }
  auto request = host_.RequestOf(*call);
  if (!request) return call->Abort(std::move(request.error()));
  const auto connection = entry.connection;
  const auto stream = connection->Start(std::move(*request), call);
  if (!stream) return Again(call);  // that connection takes no more
  call->RunsOn(connection, *stream);
}

Lane::Entry* Lane::FindRoom() {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [](const Entry& entry) { return entry.connection->room() > 0; });
  return found == connections_.end() ? nullptr : &*found;
}

void Lane::Prune() {
  std::erase_if(connections_, [](const Entry& entry) {
    const auto& connection = entry.connection;
    if (connection->closed()) return true;
    const bool stale = connection->running() == 0 && connection->room() == 0;
    if (stale || (!connection->usable() && connection->running() == 0)) {
      connection->Close(Unavailable("no longer used"));
      return true;
    }
    return false;
  });
}

bool Lane::MayDial() const {
  if (dialling_ != nullptr || dial_waits_) return false;
  const auto usable = std::count_if(connections_.begin(), connections_.end(),
                                    [](const Entry& entry) { return entry.connection->usable(); });
  return static_cast<size_t>(usable) <
         (http1_ ? options_.most_http1_connections : options_.most_connections);
}

void Lane::DialSoon() {
  const Time now = std::chrono::steady_clock::now();
  if (now >= next_dial_) return Dial();
  dial_waits_ = true;
  dial_again_.expires_at(next_dial_);
  dial_again_.async_wait([this, alive = alive_](const boost::system::error_code&) {
    if (!*alive) return;
    dial_waits_ = false;
    Pump();
  });
}

void Lane::Dial() {
  next_dial_ = std::chrono::steady_clock::now() + Spread(back_off_);
  back_off_ = std::min(back_off_ * 2, options_.longest_back_off);
  auto options = host_.DialTo();
  auto tls = options ? host_.Tls() : Result<asio::ssl::context>(options.error());
  if (!tls) {
    trouble_ = tls.error().message();
    return FailWaiting(tls.error());
  }
  options->limit = options_.dial_limit;
  options->connection = options_.connection;
  dialling_ = transport::Dial(
      io_, std::move(*tls), std::move(*options),
      [this, generation = host_.generation()](auto made) { Dialled(std::move(made), generation); });
}

void Lane::Dialled(Result<std::shared_ptr<transport::Connection>> made, uint64_t generation) {
  // Not within its own call.
  asio::post(io_, [ended = std::shared_ptr(std::move(dialling_))] {});
  if (!made) {
    trouble_ = made.error().message();
    return FailWaiting(made.error());
  }
  trouble_.clear();
  http1_ = !(*made)->multiplexed();
  connections_.push_back({std::move(*made), generation, std::chrono::steady_clock::now()});
  Pump();
}

// Who asked learns why at once; the next try is as far away as the back-off says.
void Lane::FailWaiting(const Error& why) {
  const std::deque<CallPtr> waiting = waiting_;
  for (const CallPtr& call : waiting) call->Abort(why);
}

}  // namespace holdfast::agent
