// SPDX-License-Identifier: Apache-2.0
// H2Connection: an H2Session on a TLS stream. Each turn takes what was read, tells the handlers, and writes what came
// of it. Kept alive by its own operations, hence a shared_ptr.
#pragma once

#include "runtime/http/tls_stream_internal.h"  // first, for Boost 1.74

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/http/connection.h"
#include "runtime/http/h2_session.h"
#include "runtime/http/options.h"

namespace holdfast::runtime::http {

class H2Connection : public Connection, public std::enable_shared_from_this<H2Connection> {
 public:
  static Result<std::shared_ptr<Connection>> Open(boost::asio::io_context& io, TlsStreamPtr stream,
                                                  std::string peer, ConnectionOptions options);

  Result<StreamId> Start(Request request, std::shared_ptr<ResponseHandler> handler) override;
  void Consume(StreamId stream, size_t bytes) override;
  void Cancel(StreamId stream) override;
  void Drain() override;
  void Close(const Error& why) override;
  bool multiplexed() const override { return true; }
  bool usable() const override { return !closed_ && !draining_ && !session_->went_away(); }
  bool closed() const override { return closed_; }
  size_t room() const override;
  size_t running() const override { return running_.size(); }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Running {
    std::shared_ptr<ResponseHandler> handler;  // the caller's, who may let go of it first
    size_t unconsumed = 0;
  };

  H2Connection(boost::asio::io_context& io, TlsStreamPtr stream, std::string peer,
               ConnectionOptions options, std::unique_ptr<H2Session> session);
  void Read();
  void TurnSoon();
  void Turn();
  void Deliver();
  void DeliverOne(H2Session::Event& event);
  void Write();
  void Finish(const Error& why, bool by_peer);
  void WatchHealth();
  std::optional<Running> Take(StreamId stream);

  boost::asio::io_context& io_;
  const TlsStreamPtr stream_;
  const std::string peer_;
  const ConnectionOptions options_;
  const std::unique_ptr<H2Session> session_;
  boost::asio::steady_timer health_;
  std::map<StreamId, Running> running_;
  std::array<char, 16 << 10> buffer_{};  // a TLS record
  size_t read_ = 0;                      // of it, not yet given to the session
  std::string output_;
  bool turn_posted_ = false, writing_ = false, health_watched_ = false;
  bool draining_ = false, closed_ = false;
  Time last_read_;
  std::optional<Time> pinged_;  // not answered yet
};

}  // namespace holdfast::runtime::http
