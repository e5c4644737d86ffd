// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/post.hpp>

#include "agent/cluster/call_internal.h"
#include "agent/cluster/reply.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace transport = runtime::http;
using How = transport::StreamEnd::How;

constexpr int kMostTries = 3;
constexpr int kMostTriesUnprocessed = 10;  // a server that goes away refuses a few
constexpr std::chrono::milliseconds kTurn{2};
constexpr size_t kLargestRefusal = 1 << 20;
constexpr int kOk = 200;

}  // namespace

const char* VerbName(ApiVerb verb) {
  switch (verb) {
    case ApiVerb::kPost:
      return "POST";
    case ApiVerb::kPut:
      return "PUT";
    case ApiVerb::kPatch:
      return "PATCH";
    case ApiVerb::kDelete:
      return "DELETE";
    case ApiVerb::kGet:
      break;
  }
  return "GET";
}

// --- PendingCall ---

PendingCall::PendingCall(CallHost& host, ApiCall call)
    : host_(host), call_(std::move(call)), limit_(host.io()) {}

// Without the query: its time limits make every text another one.
std::string PendingCall::What() const {
  return StrCat(VerbName(call_.verb), " ", call_.path.substr(0, call_.path.find('?')));
}

void PendingCall::Arm() {
  limit_.expires_after(call_.limit);
  limit_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (cancelled || self->left_) return;
    const std::string trouble = self->host_.Trouble(*self);
    self->Abort(
        Error(Code::kDeadlineExceeded, StrCat("no answer within ", self->call_.limit.count(), " ms",
                                              trouble.empty() ? "" : " (" + trouble + ")")));
  });
}

void PendingCall::RunsOn(std::shared_ptr<transport::Connection> connection,
                         transport::StreamId stream) {
  connection_ = std::move(connection);
  stream_ = stream;
  head_ = {};
  ++begun_;
  Begun();
}

void PendingCall::DropStream() {
  if (connection_ != nullptr) connection_->Cancel(stream_);
  connection_.reset();
}

void PendingCall::Leave() {
  left_ = true;
  limit_.cancel();
  DropStream();
  host_.Left(shared_from_this());
}

void PendingCall::Cancel() {
  if (!left_) Leave();
}

void PendingCall::Abort(Error why) {
  if (left_) return;
  Leave();
  if (!forgotten_) Tell(std::move(why).Wrap(What()));
}

void PendingCall::Consume(size_t bytes) {
  if (connection_ != nullptr) connection_->Consume(stream_, bytes);
}

void PendingCall::OnHead(transport::ResponseHead head) {
  if (left_) return;
  head_ = std::move(head);
  host_.Answered(*this, head_.status);
  TakeHead();
}

void PendingCall::OnEnd(transport::StreamEnd end) {
  if (left_) return;
  if (!MayRepeat(end)) return Ended(std::move(end));
  connection_.reset();
  host_.Again(shared_from_this());
}

bool PendingCall::MayRepeat(const transport::StreamEnd& end) const {
  if (end.how == How::kComplete || !MayBegin() || forgotten_) return false;
  if (end.how == How::kNotProcessed) return begun_ < kMostTriesUnprocessed;
  return call_.repeatable && begun_ < kMostTries && end.error.code() == Code::kUnavailable;
}

// --- UnaryCall ---

void UnaryCall::OnBody(std::string_view bytes) {
  if (left()) return;
  body_.append(bytes);
  Consume(bytes.size());
}

void UnaryCall::Ended(transport::StreamEnd end) {
  if (end.how != How::kComplete) return Abort(std::move(end.error));
  ApiReply reply = ToApiReply(head(), std::move(body_));
  Leave();
  if (!forgotten()) done_(std::move(reply));
}

void UnaryCall::Tell(Error error) { done_(std::move(error)); }

// --- WatchCall ---

void WatchCall::TakeHead() {
  if (head().status != kOk) return;
  EndLimit();
  const std::string_view type = transport::Find(head().headers, "content-type");
  if (IsOfType(type, kProtobufType)) {
    frames_.emplace(WatchFrames::Form::kProtobuf);
  } else if (IsOfType(type, kJsonType)) {
    frames_.emplace(WatchFrames::Form::kJson);
  } else {
    Abort(Unavailable(StrCat("the answer is no watch but ", type)));
  }
}

void WatchCall::OnBody(std::string_view bytes) {
  if (left()) return;
  if (!frames_) return TakeRefusal(bytes);
  unconsumed_ += bytes.size();
  frames_->Append(bytes);
  if (!pump_posted_) Pump();
}

void WatchCall::TakeRefusal(std::string_view bytes) {
  Consume(bytes.size());
  if (refusal_.size() + bytes.size() > kLargestRefusal) {
    return Abort(Error(Code::kResourceExhausted,
                       StrCat("the server says ", head().status, " with a body of more than ",
                              kLargestRefusal, " bytes")));
  }
  refusal_.append(bytes);
}

void WatchCall::Ended(transport::StreamEnd end) {
  if (frames_) {
    end_ = std::move(end);
    if (!pump_posted_) Pump();
    return;
  }
  if (end.how != How::kComplete) return Abort(std::move(end.error));
  ApiReply reply = ToApiReply(head(), std::move(refusal_));
  Leave();
  if (!forgotten()) listener_.refused(std::move(reply));
}

// Shows frames until there is none or the turn is over. A frame may be larger than the window, so bytes of one that is
// not whole yet are consumed; those of frames that wait for the next turn are not.
void WatchCall::Pump() {
  const bool more = ShowFrames();
  if (left() || forgotten()) return;
  const size_t keep = more ? frames_->pending() : 0;
  if (unconsumed_ > keep) {
    const size_t done = unconsumed_ - keep;
    unconsumed_ = keep;
    Consume(done);
  }
  if (more) {
    pump_posted_ = true;
    return asio::post(host_.io(), [self = std::static_pointer_cast<WatchCall>(shared_from_this())] {
      self->pump_posted_ = false;
      if (!self->left()) self->Pump();
    });
  }
  if (end_) Finish();
}

// Whether there may be more.
bool WatchCall::ShowFrames() {
  const auto until = std::chrono::steady_clock::now() + kTurn;
  while (!left() && !forgotten()) {
    auto frame = frames_->Next();
    if (!frame) {
      Abort(std::move(frame.error()));
      return false;
    }
    if (!*frame) return false;
    listener_.frame((*frame)->type, (*frame)->object);
    if (std::chrono::steady_clock::now() >= until) return true;
  }
  return false;
}

void WatchCall::Finish() {
  if (end_->how == How::kFailed || end_->how == How::kNotProcessed) {
    return Abort(std::move(end_->error));
  }
  if (end_->how == How::kComplete && frames_->pending() > 0) {
    return Abort(Unavailable("the watch was cut within an event"));
  }
  Leave();
  if (!forgotten()) listener_.ended({});
}

void WatchCall::EndInOrder() {
  if (left() || end_) return;
  Leave();
  if (!forgotten()) listener_.ended({});
}

void WatchCall::Tell(Error error) { listener_.ended(std::move(error)); }

}  // namespace holdfast::agent
