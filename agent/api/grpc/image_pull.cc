// SPDX-License-Identifier: Apache-2.0
// PullImage: the pull runs on a thread of ServerCore::transfers; its progress goes out as fast as the
// caller reads, the newest only.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "agent/api/grpc/image_messages.h"
#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"

namespace holdfast::agent::api {
namespace {

v1::PullImageResponse::LayerState StateOf(LayerProgress::State state) {
  switch (state) {
    case LayerProgress::State::kWaiting:
      return v1::PullImageResponse::LAYER_STATE_WAITING;
    case LayerProgress::State::kDownloading:
      return v1::PullImageResponse::LAYER_STATE_DOWNLOADING;
    case LayerProgress::State::kDownloaded:
      return v1::PullImageResponse::LAYER_STATE_DOWNLOADED;
    case LayerProgress::State::kUnpacking:
      return v1::PullImageResponse::LAYER_STATE_UNPACKING;
    case LayerProgress::State::kDone:
      break;
  }
  return v1::PullImageResponse::LAYER_STATE_DONE;
}

void FillProgress(const PullProgress& from, v1::PullImageResponse::Progress& to) {
  to.set_waiting(from.waiting);
  for (const LayerProgress& layer : from.layers) {
    auto& out = *to.add_layers();
    out.set_digest(layer.digest);
    out.set_size_bytes(layer.size);
    out.set_bytes(layer.bytes);
    out.set_state(StateOf(layer.state));
  }
}

class PullStream final : public grpc::ServerWriteReactor<v1::PullImageResponse>,
                         public std::enable_shared_from_this<PullStream> {
 public:
  PullStream(ServerCore& core, std::string peer, bool shows_environment, std::string reference)
      : core_(core),
        peer_(std::move(peer)),
        shows_(shows_environment),
        reference_(std::move(reference)) {}

  static PullStream* Start(std::shared_ptr<PullStream> stream) {
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
    access::AuditScope audit = BeginAudit(core_, peer_, Method::kPullImage, reference_);
    auto pulled = core_.node.PullImage(
        reference_, [this](const PullProgress& progress) { Show(progress); }, cancelled_);
    const std::lock_guard lock(mutex_);
    status_ = pulled ? grpc::Status::OK : ToStatus(pulled.error());
    if (cancelled_ && !pulled) status_ = grpc::Status::CANCELLED;
    audit.Finish(StatusName(status_.error_code()));
    has_next_ = pulled.has_value();
    if (pulled) FillImage(pulled->image, shows_, *next_.mutable_image());
    ended_ = true;
    Advance();
  }

  void Show(const PullProgress& progress) {
    const std::lock_guard lock(mutex_);
    next_.Clear();
    FillProgress(progress, *next_.mutable_progress());
    has_next_ = true;
    Advance();
  }

  void Advance() {  // mutex_ held
    if (writing_ || finished_) return;
    if (has_next_ && !cancelled_) {
      writing_ = true;
      has_next_ = false;
      message_ = std::move(next_);
      return StartWrite(&message_);
    }
    if (!ended_) return;
    finished_ = true;
    Finish(status_);
  }

  ServerCore& core_;
  const std::string peer_;
  const bool shows_;
  const std::string reference_;
  std::shared_ptr<PullStream> self_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;               // what follows
  v1::PullImageResponse message_;  // being written
  v1::PullImageResponse next_;
  grpc::Status status_;
  bool has_next_ = false;
  bool writing_ = false;
  bool ended_ = false;
  bool finished_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::PullImageResponse>* NodeAgentService::PullImage(
    grpc::CallbackServerContext* context, const v1::PullImageRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kPullImage)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::PullImageResponse>>(*refusal);
  }
  return PullStream::Start(std::make_shared<PullStream>(core_, context->peer(), ShowsEnvironment(),
                                                        request->reference()));
}

}  // namespace holdfast::agent::api
