// SPDX-License-Identifier: Apache-2.0
// Lane: calls of one kind and the connections that they share with no other. Connections are made when calls wait and
// there is no room, with a back-off that an answer ends. On the API thread. Source: join.md section 2, traps 1 to 4
// and 13.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/cluster/call_internal.h"
#include "runtime/http/connection.h"
#include "runtime/http/dial.h"

namespace holdfast::agent {

struct LaneOptions {
  size_t most_connections = 1;  // with HTTP/2; with HTTP/1.1 each call has one
  size_t most_http1_connections = 24;
  std::chrono::milliseconds dial_limit{10'000};
  std::chrono::milliseconds first_back_off{50}, longest_back_off{10'000};
  runtime::http::ConnectionOptions connection;
};

// Where to, and who one is, of the moment.
class LaneHost {
 public:
  virtual ~LaneHost() = default;
  // Without `connection` and `limit`, which are the lane's.
  virtual Result<runtime::http::DialOptions> DialTo() = 0;
  virtual Result<boost::asio::ssl::context> Tls() = 0;
  virtual Result<runtime::http::Request> RequestOf(const PendingCall& call) = 0;
  virtual bool MayWatchByHttp1() = 0;
  virtual uint64_t generation() const = 0;  // of the credentials
};

class Lane {
 public:
  Lane(boost::asio::io_context& io, LaneHost& host, LaneOptions options);
  ~Lane();  // what is under way ends, and nobody is told

  void Add(const CallPtr& call);
  void Again(const CallPtr& call);
  void Remove(const CallPtr& call);
  // An answer came: the next connection need not wait.
  void Answered();
  // What waits and what runs ends with that error; connections close.
  void Abort(const Error& why);
  // No more calls on that one, if it is older than `age`: it has credentials that are not taken.
  void Retire(const runtime::http::Connection* connection, std::chrono::milliseconds age);
  // One connection of an older generation gets no more calls, and its watches end in order; false: there is none.
  bool RetireOneBefore(uint64_t generation);

  const std::string& trouble() const { return trouble_; }
  size_t http1_watches() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    std::shared_ptr<runtime::http::Connection> connection;  // of the calls on it, too
    uint64_t generation = 0;
    Time opened;
  };

  void PumpSoon();
  void Pump();
  void Begin(const Entry& entry, const CallPtr& call);
  Entry* FindRoom();
  void Prune();
  bool MayDial() const;
  void DialSoon();
  void Dial();
  void Dialled(Result<std::shared_ptr<runtime::http::Connection>> made, uint64_t generation);
  void FailWaiting(const Error& why);

  boost::asio::io_context& io_;
  LaneHost& host_;
  const LaneOptions options_;
  boost::asio::steady_timer dial_again_;
  std::vector<Entry> connections_;
  std::deque<CallPtr> waiting_;
  std::set<CallPtr> running_;
  std::unique_ptr<runtime::http::Dialling> dialling_;
  std::chrono::milliseconds back_off_;
  Time next_dial_;
  std::string trouble_;  // of the last try to connect
  bool http1_ = false;   // that is what the server speaks
  bool dial_waits_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what is posted
  bool pump_posted_ = false;
};

}  // namespace holdfast::agent
