// SPDX-License-Identifier: Apache-2.0
// ProgressStream: a transfer of an image on a thread of ServerCore::transfers. How far it is goes out as
// fast as the caller reads, the newest only; last comes what became of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"

namespace holdfast::agent::api {

template <class Response>
class ProgressStream final : public grpc::ServerWriteReactor<Response>,
                             public std::enable_shared_from_this<ProgressStream<Response>> {
 public:
  // The transfer, until it has ended or `cancelled` is set; its last message.
  using Work = std::function<Result<Response>(const std::function<void(Response)>& show,
                                              const std::atomic<bool>& cancelled)>;

  ProgressStream(ServerCore& core, std::string peer, Method method, std::string object, Work work)
      : core_(core),
        peer_(std::move(peer)),
        method_(method),
        object_(std::move(object)),
        work_(std::move(work)) {}

  static ProgressStream* Start(std::shared_ptr<ProgressStream> stream) {
    stream->self_ = stream;
    const auto posted = stream->core_.transfers.TryPost([stream] { stream->Run(); });
    if (!posted) stream->Finish(ToStatus(posted.error()));
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) cancelled_ = true;
    Advance();
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { self_.reset(); }

 private:
  void Run() {
    access::AuditScope audit = BeginAudit(core_, peer_, method_, object_);
    auto done = work_([this](Response progress) { Show(std::move(progress)); }, cancelled_);
    const std::lock_guard lock(mutex_);
    status_ = done ? grpc::Status::OK : ToStatus(done.error());
    if (cancelled_ && !done) status_ = grpc::Status::CANCELLED;
    audit.Finish(StatusName(status_.error_code()));
    has_next_ = done.has_value();
    if (done) next_ = std::move(*done);
    ended_ = true;
    Advance();
  }

  void Show(Response progress) {
    const std::lock_guard lock(mutex_);
    next_ = std::move(progress);
    has_next_ = true;
    Advance();
  }

  void Advance() {  // mutex_ held
    if (writing_ || finished_) return;
    if (has_next_ && !cancelled_) {
      writing_ = true;
      has_next_ = false;
      message_ = std::move(next_);
      return this->StartWrite(&message_);
    }
    if (!ended_) return;
    finished_ = true;
    this->Finish(status_);
  }

  ServerCore& core_;
  const std::string peer_;
  const Method method_;
  const std::string object_;  // for the audit
  const Work work_;
  std::shared_ptr<ProgressStream> self_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;  // what follows
  Response message_;  // being written
  Response next_;
  grpc::Status status_;
  bool has_next_ = false;
  bool writing_ = false;
  bool ended_ = false;
  bool finished_ = false;
};

}  // namespace holdfast::agent::api
