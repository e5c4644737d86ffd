// SPDX-License-Identifier: Apache-2.0
// DumpProxy: one text, in messages that gRPC takes. The text is made on a request worker.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/proxy/service_view.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kChunk = 64 * 1024;

// One write at a time, so nothing here is called twice at once. Keeps itself alive until OnDone().
class DumpStream final : public grpc::ServerWriteReactor<v1::DumpProxyResponse>,
                         public std::enable_shared_from_this<DumpStream> {
 public:
  static DumpStream* Start(std::shared_ptr<DumpStream> stream, ServerCore& core) {
    stream->self_ = stream;
    const auto posted = core.requests.TryPost([stream, &core] {
      auto text = core.node.services().DumpRules();
      if (!text) return stream->Finish(ToStatus(text.error()));
      stream->text_ = std::move(*text);
      stream->Next();
    });
    if (!posted) stream->Finish(ToStatus(posted.error()));
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    Next();
  }
  void OnDone() override { self_.reset(); }

 private:
  void Next() {
    if (at_ == text_.size()) return Finish(grpc::Status::OK);
    const size_t size = std::min(kChunk, text_.size() - at_);
    message_.set_data(text_.data() + at_, size);
    at_ += size;
    StartWrite(&message_);
  }

  std::shared_ptr<DumpStream> self_;
  std::string text_;
  size_t at_ = 0;
  v1::DumpProxyResponse message_;
};

}  // namespace

grpc::ServerWriteReactor<v1::DumpProxyResponse>* NodeAgentService::DumpProxy(
    grpc::CallbackServerContext* context, const v1::DumpProxyRequest* /*request*/) {
  if (const auto refusal = Refusal(*context, Method::kDumpProxy)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::DumpProxyResponse>>(*refusal);
  }
  return DumpStream::Start(std::make_shared<DumpStream>(), core_);
}

}  // namespace holdfast::agent::api
