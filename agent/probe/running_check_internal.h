// SPDX-License-Identifier: Apache-2.0
// What the kinds of checks share: one end, a time limit, being given up. On the runner's thread.
// Each is kept alive by its own operations, hence a shared_ptr.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/worker_pool.h"
#include "agent/probe/check.h"
#include "agent/probe/check_runner.h"

namespace holdfast::agent {

class CheckBase : public std::enable_shared_from_this<CheckBase> {
 public:
  virtual ~CheckBase() = default;

  void Begin(std::optional<std::chrono::nanoseconds> limit, CheckRunner::Done done) {
    done_ = std::move(done);
    limit_ = limit;
    if (limit) {
      timer_.expires_after(*limit);
      timer_.async_wait([self = shared_from_this()](const auto& cancelled) {
        if (!cancelled && self->done_) self->End(self->OnLimit());
      });
    }
    boost::asio::post(io_, [self = shared_from_this()] {
      if (self->done_) self->Go();
    });
  }
  void GiveUp() {
    done_ = nullptr;
    (void)timer_.cancel();
    Close();
  }

 protected:
  explicit CheckBase(boost::asio::io_context& io) : io_(io), timer_(io) {}
  // The first step.
  virtual void Go() = 0;
  // Ends what is under way: its handlers may still be called, and find it ended.
  virtual void Close() = 0;
  // What to say when the time is over.
  virtual CheckOutcome OnLimit() = 0;

  bool ended() const { return done_ == nullptr; }
  void End(CheckOutcome outcome) {
    if (ended()) return;
    CheckRunner::Done done = std::exchange(done_, nullptr);
    (void)timer_.cancel();
    Close();
    done(std::move(outcome));
  }
  void Fail(std::string text) { End({CheckOutcome::How::kFailure, std::move(text)}); }
  // What this machine lacks says nothing about the container.
  void FailDial(const Error& why, const std::string& context) {
    const bool ours = why.code() == Code::kResourceExhausted;
    End({ours ? CheckOutcome::How::kError : CheckOutcome::How::kFailure, context + why.message()});
  }

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  std::optional<std::chrono::nanoseconds> limit_;

 private:
  CheckRunner::Done done_;
};

// A TCP connection to a host of that name or address, for the kinds that need one.
class Dialler {
 public:
  explicit Dialler(boost::asio::io_context& io) : resolver_(io), socket_(io) {}

  // What failed is in Go's words: "dial tcp 10.0.0.1:80: connect: …". kResourceExhausted: it is
  // ours. Not called after Close().
  using Connected = std::function<void(Result<void>)>;
  void Dial(const std::string& host, uint16_t port, Connected connected);
  void Close();
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  Result<void> Open(const boost::asio::ip::tcp& protocol);
  void Connect(std::vector<boost::asio::ip::tcp::endpoint> endpoints, Connected connected);

  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  bool closed_ = false;
};

// An error of a socket as Go's runtime words it: lower case, as in strerror(3).
std::string SocketError(const boost::system::error_code& error);

std::shared_ptr<CheckBase> MakeExecCheck(boost::asio::io_context& io, ContainerRuntime& runtime,
                                         WorkerPool& starters, ExecCheck check);
std::shared_ptr<CheckBase> MakeHttpCheck(boost::asio::io_context& io, HttpCheck check);
std::shared_ptr<CheckBase> MakeTcpCheck(boost::asio::io_context& io, TcpCheck check);
std::shared_ptr<CheckBase> MakeGrpcCheck(boost::asio::io_context& io, GrpcCheck check);
std::shared_ptr<CheckBase> MakeSleepCheck(boost::asio::io_context& io, SleepCheck check);

}  // namespace holdfast::agent
