// SPDX-License-Identifier: Apache-2.0
// One call to the API server from its queue to its end: UnaryCall and WatchCall. All of it runs on the API thread but
// Forget(). Kept by its lane while it waits or runs, by its own operations, and by its Ticket.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "agent/cluster/api.h"
#include "agent/cluster/watch_frames.h"
#include "runtime/http/connection.h"

namespace holdfast::agent {

class PendingCall;
using CallPtr = std::shared_ptr<PendingCall>;

const char* VerbName(ApiVerb verb);  // "GET"

// Where calls stand in line.
class CallHost {
 public:
  virtual ~CallHost() = default;
  virtual boost::asio::io_context& io() = 0;
  // The server answered, whatever it said.
  virtual void Answered(PendingCall& call, int status) = 0;
  // To be sent again, before those that wait.
  virtual void Again(const CallPtr& call) = 0;
  virtual void Left(const CallPtr& call) = 0;
  // Of the lane's last failed try to connect; "" when there is none.
  virtual std::string Trouble(const PendingCall& call) = 0;
};

class PendingCall : public runtime::http::ResponseHandler,
                    public std::enable_shared_from_this<PendingCall> {
 public:
  PendingCall(CallHost& host, ApiCall call);

  // The time limit begins.
  void Arm();
  void RunsOn(std::shared_ptr<runtime::http::Connection> connection,
              runtime::http::StreamId stream);
  // Any thread: no callback begins any more. Cancel() follows.
  void Forget() { forgotten_ = true; }
  void Cancel();
  // Ends with the error, whatever is under way.
  void Abort(Error why);
  // A watch ends in order, as if the server had ended it; others run on.
  virtual void EndInOrder() {}

  virtual bool is_watch() const = 0;
  const ApiCall& call() const { return call_; }
  runtime::http::Connection* connection() const { return connection_.get(); }

  void OnHead(runtime::http::ResponseHead head) final;
  void OnEnd(runtime::http::StreamEnd end) final;

 protected:
  virtual void Begun() {}  // maybe not for the first time
  virtual void TakeHead() = 0;
  virtual void Ended(runtime::http::StreamEnd end) = 0;
  virtual void Tell(Error error) = 0;  // the caller, of a failure
  // Nothing of an answer was shown to the caller.
  virtual bool MayBegin() const = 0;

  bool forgotten() const { return forgotten_; }
  bool left() const { return left_; }
  const runtime::http::ResponseHead& head() const { return head_; }
  std::string What() const;  // "GET /api/v1/pods"
  void EndLimit() { limit_.cancel(); }
  void Consume(size_t bytes);
  // The call is over; what the caller is told comes after.
  void Leave();

  CallHost& host_;

 private:
  bool MayRepeat(const runtime::http::StreamEnd& end) const;
  void DropStream();

  const ApiCall call_;
  boost::asio::steady_timer limit_;
  std::shared_ptr<runtime::http::Connection> connection_;  // the lane's; null: it waits
  runtime::http::StreamId stream_ = 0;
  runtime::http::ResponseHead head_;
  int begun_ = 0;
  bool left_ = false;
  std::atomic<bool> forgotten_{false};
};

class UnaryCall : public PendingCall {
 public:
  UnaryCall(CallHost& host, ApiCall call, Api::Done done)
      : PendingCall(host, std::move(call)), done_(std::move(done)) {}

  bool is_watch() const override { return false; }
  void OnBody(std::string_view bytes) override;

 private:
  void Begun() override { body_.clear(); }
  void TakeHead() override {}
  void Ended(runtime::http::StreamEnd end) override;
  void Tell(Error error) override;
  bool MayBegin() const override { return true; }

  Api::Done done_;
  std::string body_;
};

struct WatchListener {
  Api::Frame frame;
  std::function<void(Result<void>)> ended;
  std::function<void(ApiReply)> refused;
};

class WatchCall : public PendingCall {
 public:
  WatchCall(CallHost& host, ApiCall call, WatchListener listener)
      : PendingCall(host, std::move(call)), listener_(std::move(listener)) {}

  bool is_watch() const override { return true; }
  void OnBody(std::string_view bytes) override;
  void EndInOrder() override;

 private:
  void TakeHead() override;
  void Ended(runtime::http::StreamEnd end) override;
  void Tell(Error error) override;
  bool MayBegin() const override { return head().status == 0; }
  void TakeRefusal(std::string_view bytes);
  void Pump();
  bool ShowFrames();
  void Finish();

  WatchListener listener_;
  std::optional<WatchFrames> frames_;  // of an answer that is a watch
  std::string refusal_;                // the body of one that is none
  size_t unconsumed_ = 0;
  bool pump_posted_ = false;
  std::optional<runtime::http::StreamEnd> end_;  // told after the frames before it
};

}  // namespace holdfast::agent
