// SPDX-License-Identifier: Apache-2.0
// ImportImage and ExportImage: a socket pair between the stream and the store, whose calls block.
// One thread runs the store, one moves bytes; both take a place in ServerCore::transfers, so their
// number is bounded. A socket pair, not a pipe: a write whose reader has gone is an error, no
// signal.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "agent/api/grpc/image_messages.h"
#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kExportChunk = 64 * 1024;
constexpr size_t kMaxImportChunk = 1024 * 1024;

Result<std::pair<UniqueFd, UniqueFd>> StreamPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

// False: the reader has gone.
bool SendAll(int socket, std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

class ImportStream final : public grpc::ServerReadReactor<v1::ImportImageRequest>,
                           public std::enable_shared_from_this<ImportStream> {
 public:
  ImportStream(ServerCore& core, std::string peer, bool shows_environment,
               v1::ImportImageResponse* response)
      : core_(core), peer_(std::move(peer)), shows_(shows_environment), response_(response) {}

  static ImportStream* Start(std::shared_ptr<ImportStream> stream) {
    stream->self_ = stream;
    stream->StartRead(&stream->message_);
    return stream.get();
  }

  void OnReadDone(bool ok) override {
    std::unique_lock lock(mutex_);
    if (ended_) return;
    if (!started_) {
      if (!ok || message_.payload_case() != v1::ImportImageRequest::kOptions) {
        return End({grpc::StatusCode::INVALID_ARGUMENT, "the first message must carry options"});
      }
      return Begin();
    }
    if (ok && message_.payload_case() == v1::ImportImageRequest::kEnd) {
      complete_ = true;
    } else if (ok && message_.payload_case() == v1::ImportImageRequest::kData &&
               message_.data().size() <= kMaxImportChunk) {
      has_chunk_ = true;
    } else {
      Break({grpc::StatusCode::INVALID_ARGUMENT,
             "the archive was cut off: data of at most 1 MiB per message, then end"});
    }
    wake_.notify_all();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    Break(grpc::Status::CANCELLED);
    if (!started_) End(grpc::Status::CANCELLED);
  }

  void OnDone() override { self_.reset(); }

 private:
  void Begin() {  // mutex_ held
    options_ = std::move(*message_.mutable_options());
    auto pair = StreamPair();
    if (!pair) return End(ToStatus(pair.error()));
    socket_ = std::move(pair->first);
    auto store_side = std::make_shared<UniqueFd>(std::move(pair->second));
    if (!SendAll(store_side->get(), "x")) return End(ToStatus(Internal("socket pair: not usable")));
    started_ = true;
    threads_ = 2;
    const auto store = core_.transfers.TryPost(
        [self = shared_from_this(), store_side] { self->RunStore(store_side); });
    if (!store) return End(ToStatus(store.error()));
    const auto feed = core_.transfers.TryPost([self = shared_from_this()] { self->Feed(); });
    if (!feed) {
      // The store's thread is there already: let it see a broken archive, and report why.
      threads_ = 1;
      Break(ToStatus(feed.error()));
      return socket_.Reset();
    }
    StartRead(&message_);
  }

  void Break(const grpc::Status& status) {  // mutex_ held
    if (broken_ || store_done_) return;
    broken_ = true;
    status_ = status;
    wake_.notify_all();
  }

  void RunStore(const std::shared_ptr<UniqueFd>& store_side) {
    access::AuditScope audit = BeginAudit(core_, peer_, Method::kImportImage, options_.reference());
    ImportOptions options;
    options.reference = options_.reference();
    if (options_.has_config()) options.config = ReadImageConfig(options_.config());
    auto images = core_.node.images().Import(store_side->get(), options);
    store_side->Reset();  // a feeder that still sends gets EPIPE
    grpc::Status status = images ? grpc::Status::OK : ToStatus(images.error());
    if (images) {
      for (const Image& image : *images) FillImage(image, shows_, *response_->add_images());
    }
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) status = status_;
    audit.Finish(StatusName(status.error_code()));
    status_ = status;
    store_done_ = true;
    wake_.notify_all();
    ThreadEnds();
  }

  // At the end the store gets either an end-of-file or, when the archive was cut off, ECONNRESET:
  // that is what a unix socket gives its reader when the other end is closed with something unread
  // in it (the byte that Begin() put there).
  void Feed() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return has_chunk_ || complete_ || broken_ || store_done_; });
      if (!has_chunk_ || broken_ || store_done_) break;
      const std::string data = std::move(*message_.mutable_data());
      lock.unlock();
      const bool sent = SendAll(socket_.get(), data);
      lock.lock();
      has_chunk_ = false;
      if (!sent) break;
      if (!broken_) StartRead(&message_);
    }
    if (complete_ && !broken_) {
      (void)::shutdown(socket_.get(), SHUT_WR);  // fails only when the store has hung up
    } else {
      socket_.Reset();
    }
    ThreadEnds();
  }

  void ThreadEnds() {  // mutex_ held
    if (--threads_ == 0) End(status_);
  }

  void End(const grpc::Status& status) {  // mutex_ held
    if (ended_) return;
    ended_ = true;
    Finish(status);
  }

  ServerCore& core_;
  const std::string peer_;
  const bool shows_;
  v1::ImportImageResponse* const response_;
  std::shared_ptr<ImportStream> self_;
  v1::ImportImageRequest message_;
  v1::ImportImageRequest::Options options_;
  UniqueFd socket_;  // set before the threads start
  std::mutex mutex_;
  std::condition_variable wake_;
  grpc::Status status_;
  int threads_ = 0;
  bool started_ = false;
  bool has_chunk_ = false;
  bool complete_ = false;
  bool broken_ = false;
  bool store_done_ = false;
  bool ended_ = false;
};

class ExportStream final : public grpc::ServerWriteReactor<v1::ExportImageResponse>,
                           public std::enable_shared_from_this<ExportStream> {
 public:
  ExportStream(ServerCore& core, std::string reference)
      : core_(core), reference_(std::move(reference)) {}

  static ExportStream* Start(std::shared_ptr<ExportStream> stream) {
    stream->self_ = stream;
    const std::lock_guard lock(stream->mutex_);
    stream->Begin();
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) Break();
    wake_.notify_all();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    Break();
  }
  void OnDone() override { self_.reset(); }

 private:
  void Begin() {  // mutex_ held
    auto pair = StreamPair();
    if (!pair) return Finish(ToStatus(pair.error()));
    socket_ = std::move(pair->first);
    auto store_side = std::make_shared<UniqueFd>(std::move(pair->second));
    threads_ = 2;
    const auto store = core_.transfers.TryPost([self = shared_from_this(), store_side] {
      auto result = self->core_.node.images().Export(self->reference_, store_side->get());
      const std::lock_guard lock(self->mutex_);
      store_side->Reset();  // end-of-file for the sender
      if (!result) self->status_ = ToStatus(result.error());
      self->ThreadEnds();
    });
    if (!store) return Finish(ToStatus(store.error()));
    const auto drain = core_.transfers.TryPost([self = shared_from_this()] { self->Drain(); });
    if (!drain) {
      status_ = ToStatus(drain.error());
      threads_ = 1;
      Break();
    }
  }

  void Drain() {
    std::string buffer(kExportChunk, '\0');
    while (true) {
      const ssize_t count = ::read(socket_.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      std::unique_lock lock(mutex_);
      if (count <= 0 || broken_) break;
      message_.set_data(buffer.data(), static_cast<size_t>(count));
      writing_ = true;
      StartWrite(&message_);
      wake_.wait(lock, [this] { return !writing_; });
    }
    const std::lock_guard lock(mutex_);
    (void)::shutdown(socket_.get(), SHUT_RDWR);  // the other end may be gone already
    ThreadEnds();
  }

  // The store's next write fails with EPIPE (its SIGPIPE is ignored by the agent).
  void Break() {  // mutex_ held
    broken_ = true;
    (void)::shutdown(socket_.get(), SHUT_RDWR);
    wake_.notify_all();
  }

  void ThreadEnds() {  // mutex_ held
    if (--threads_ == 0) Finish(broken_ && status_.ok() ? grpc::Status::CANCELLED : status_);
  }

  ServerCore& core_;
  const std::string reference_;
  std::shared_ptr<ExportStream> self_;
  v1::ExportImageResponse message_;
  UniqueFd socket_;
  std::mutex mutex_;
  std::condition_variable wake_;
  grpc::Status status_;
  int threads_ = 0;
  bool writing_ = false;
  bool broken_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::ImportImageRequest>* NodeAgentService::ImportImage(
    grpc::CallbackServerContext* context, v1::ImportImageResponse* response) {
  if (const auto refusal = Refusal(*context, Method::kImportImage)) {
    return new RefusedStream<grpc::ServerReadReactor<v1::ImportImageRequest>>(*refusal);
  }
  return ImportStream::Start(
      std::make_shared<ImportStream>(core_, context->peer(), ShowsEnvironment(), response));
}

grpc::ServerWriteReactor<v1::ExportImageResponse>* NodeAgentService::ExportImage(
    grpc::CallbackServerContext* context, const v1::ExportImageRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kExportImage)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::ExportImageResponse>>(*refusal);
  }
  return ExportStream::Start(std::make_shared<ExportStream>(core_, request->reference()));
}

}  // namespace holdfast::agent::api
