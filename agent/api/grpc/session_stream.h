// SPDX-License-Identifier: Apache-2.0
// SessionStream: a bidirectional gRPC stream as the peer of a DescriptorSession (agent/stream). gRPC's
// threads only hand over what happened; everything else is on SessionLoop's thread, without a lock.
//
// Back-pressure: one read and one write are under way; the next read waits for Feed()'s consent, and
// each of the two outputs has at most one piece that waits for the one write.
// Ownership: by itself until gRPC is done with it and, of one that was let go, the session has ended.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <grpcpp/support/server_callback.h>

#include <boost/asio/post.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "agent/api/grpc/server_core.h"
#include "agent/api/grpc/session_loop.h"
#include "agent/api/grpc/status_map.h"
#include "agent/operate/session_openers.h"
#include "agent/stream/descriptor_session.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {

inline constexpr size_t kMaxInputMessage = 64 << 10;

// What a first message was found to ask for.
struct SessionPlan {
  access::AuditEntry audit;
  DescriptorSession::Opener open;
};

template <class Request, class Response>
class SessionStream : public grpc::ServerBidiReactor<Request, Response>,
                      public StreamPeer,
                      public LoopSession,
                      public std::enable_shared_from_this<SessionStream<Request, Response>> {
 public:
  SessionStream(ServerCore& core, std::string peer, SessionKind kind)
      : core_(core), peer_(std::move(peer)), kind_(kind), executor_(core.sessions.executor()) {}

  static SessionStream* Start(std::shared_ptr<SessionStream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->request_);
    return stream.get();
  }

  // ---- gRPC's threads --------------------------------------------------------------------------

  void OnReadDone(bool ok) final {
    Post([ok](SessionStream& self) { self.Received(ok); });
  }
  void OnWriteDone(bool ok) final {
    Post([ok](SessionStream& self) { self.Written(ok); });
  }
  void OnCancel() final {
    Post([](SessionStream& self) { self.Gone(); });
  }
  void OnDone() final { self_.reset(); }

 protected:
  // All that follows is on the loop's thread.

  // `first` has a start.
  virtual Result<SessionPlan> Plan(Request& first) = 0;
  // A later message. False: no more is to be read before ReadOn().
  virtual bool Take(Request& message) = 0;
  virtual void FillOutput(StreamOutput output, std::string bytes, Response& message) = 0;
  // The session stands; true: `message` is to be sent.
  virtual bool FillBegin(Response& /*message*/) { return false; }
  // The last message, if there is one to say how it ended.
  virtual bool FillEnd(const StreamEnd& /*end*/, Response& /*message*/) { return false; }

  DescriptorSession& session() { return *session_; }
  // What a message had, a `field` of it, for the session. As Take().
  bool Feed(const std::string& bytes, const char* field) {
    if (bytes.size() <= kMaxInputMessage) return session_->Feed(bytes);
    End({grpc::StatusCode::INVALID_ARGUMENT, StrCat(field, ": at most 64 KiB in a message")});
    return false;
  }
  ServerCore& core() { return core_; }
  access::AuditEntry Entry(Method method, std::string target, std::string uid,
                           std::string detail) const {
    return EntryOf(core_, peer_, method, std::move(target), std::move(uid), std::move(detail));
  }

  void End(const grpc::Status& status) {
    if (std::exchange(ended_, true)) return;
    waiting_.clear();
    if (session_ && !let_go_) session_->Close();
    this->Finish(status);
  }

  // The caller is let go; the session goes on, and what it says is thrown away.
  void LetGo() {
    if (ended_) return;
    let_go_ = this->shared_from_this();
    End(grpc::Status::OK);
    for (const StreamOutput output : {StreamOutput::kStdout, StreamOutput::kStderr}) {
      if (under_way_[static_cast<size_t>(output)]) Took(output);
    }
  }

 private:
  template <class Work>
  void Post(Work work) {
    boost::asio::post(executor_,
                      [self = this->shared_from_this(), work = std::move(work)] { work(*self); });
  }

  void Received(bool ok) {
    if (ended_) return;
    if (!session_) return Begin(ok);
    if (!ok) return session_->EndInput();  // the caller will send no more
    if (Take(request_) && !ended_) this->StartRead(&request_);
  }

  void Begin(bool ok) {
    if (!ok || !request_.has_start()) {
      return End({grpc::StatusCode::INVALID_ARGUMENT, "the first message must be start"});
    }
    auto place = core_.sessions.Enter(kind_, this->shared_from_this());
    if (!place) return End(ToStatus(place.error()));
    place_ = std::move(*place);
    auto plan = Plan(request_);
    if (!plan) return End(ToStatus(plan.error()));
    session_ = DescriptorSession::Make(executor_, core_.sessions.blocking(), *this);
    auto opener = [open = Audited(core_.audit, std::move(plan->audit), std::move(plan->open)),
                   weak = this->weak_from_this()]() -> Result<SessionEnds> {
      auto ends = open();
      if (const auto self = weak.lock(); ends && self) {
        self->Post([](SessionStream& stream) { stream.Opened(); });
      }
      return ends;
    };
    session_->Open(std::move(opener));
    this->StartRead(&request_);
  }

  void Opened() {
    Response message;
    if (!ended_ && FillBegin(message)) Send({std::nullopt, std::move(message)});
  }

  // ---- StreamPeer ------------------------------------------------------------------------------

  void Write(StreamOutput output, std::string bytes) final {
    under_way_[static_cast<size_t>(output)] = true;
    if (ended_) return Took(output);
    Response message;
    FillOutput(output, std::move(bytes), message);
    Send({output, std::move(message)});
  }

  void ReadOn() final {
    if (!ended_) this->StartRead(&request_);
  }

  void Finish(const StreamEnd& end) final {
    const auto kept = std::move(let_go_);  // to the end of this
    place_.reset();
    end_ = end;
    Conclude();
  }

  using grpc::ServerBidiReactor<Request, Response>::Finish;

  // ---- LoopSession -----------------------------------------------------------------------------

  void AgentStops() final {
    const auto kept = std::move(let_go_);
    if (session_) session_->Close();
    place_.reset();
    End({grpc::StatusCode::UNAVAILABLE, "the agent is stopping"});
  }

  // ---- writing ---------------------------------------------------------------------------------

  struct Message {
    std::optional<StreamOutput> of;  // whose piece it is
    Response message;
  };

  void Send(Message message) {
    waiting_.push_back(std::move(message));
    if (!writing_) WriteNext();
  }

  void WriteNext() {
    if (ended_ || waiting_.empty()) return;
    writing_ = true;
    response_ = std::move(waiting_.front().message);
    written_ = waiting_.front().of;
    waiting_.pop_front();
    this->StartWrite(&response_);
  }

  void Written(bool ok) {
    writing_ = false;
    if (ended_) return;
    if (!ok) return Gone();
    const auto output = written_;
    WriteNext();
    if (output) Took(*output);
    Conclude();
  }

  // The session is over, and everything was sent.
  void Conclude() {
    if (ended_ || writing_ || !end_) return;
    if (end_->error) return End(ToStatus(*end_->error));
    response_.Clear();
    if (!FillEnd(*end_, response_)) return End(grpc::Status::OK);
    ended_ = true;
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void Took(StreamOutput output) {
    under_way_[static_cast<size_t>(output)] = false;
    session_->Taken(output);
  }

  void Gone() {
    if (!let_go_) place_.reset();
    End(grpc::Status::CANCELLED);
  }

  ServerCore& core_;
  const std::string peer_;
  const SessionKind kind_;
  const boost::asio::any_io_executor executor_;
  std::shared_ptr<SessionStream> self_;    // until gRPC is done
  std::shared_ptr<SessionStream> let_go_;  // until the session of one that was let go has ended
  std::shared_ptr<void> place_;
  std::shared_ptr<DescriptorSession> session_;

  Request request_;
  Response response_;                    // of the write that is under way
  std::optional<StreamOutput> written_;  // whose piece that is
  std::deque<Message> waiting_;
  std::optional<StreamEnd> end_;        // how the session ended
  bool under_way_[2] = {false, false};  // an output's piece that was not taken yet
  bool writing_ = false;
  bool ended_ = false;
};

}  // namespace holdfast::agent::api
