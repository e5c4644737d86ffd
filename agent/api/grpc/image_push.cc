// SPDX-License-Identifier: Apache-2.0
// PushImage.
#include <atomic>
#include <functional>
#include <memory>

#include "agent/api/grpc/progress_stream.h"
#include "agent/api/grpc/service.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

v1::PushImageResponse::LayerState StateOf(PushedLayer::State state) {
  switch (state) {
    case PushedLayer::State::kWaiting:
      return v1::PushImageResponse::LAYER_STATE_WAITING;
    case PushedLayer::State::kUploading:
      return v1::PushImageResponse::LAYER_STATE_UPLOADING;
    case PushedLayer::State::kPresent:
      return v1::PushImageResponse::LAYER_STATE_PRESENT;
    case PushedLayer::State::kMounted:
      return v1::PushImageResponse::LAYER_STATE_MOUNTED;
    case PushedLayer::State::kForeign:
      return v1::PushImageResponse::LAYER_STATE_FOREIGN;
    case PushedLayer::State::kDone:
      break;
  }
  return v1::PushImageResponse::LAYER_STATE_DONE;
}

v1::PushImageResponse ProgressMessage(const PushProgress& progress) {
  v1::PushImageResponse message;
  // Also of an image without layers.
  auto& filled = *message.mutable_progress();
  for (const PushedLayer& layer : progress.layers) {
    auto& out = *filled.add_layers();
    out.set_digest(layer.digest);
    out.set_size_bytes(layer.size);
    out.set_bytes(layer.bytes);
    out.set_state(StateOf(layer.state));
  }
  return message;
}

v1::PushImageResponse PushedMessage(const PushedImage& pushed) {
  v1::PushImageResponse message;
  auto& filled = *message.mutable_pushed();
  filled.set_name(pushed.name);
  filled.set_digest(pushed.digest);
  filled.set_size_bytes(pushed.size_bytes);
  filled.set_was_there(pushed.was_there);
  if (pushed.index) filled.set_index_digest(pushed.index->value);
  return message;
}

}  // namespace

grpc::ServerWriteReactor<v1::PushImageResponse>* NodeAgentService::PushImage(
    grpc::CallbackServerContext* context, const v1::PushImageRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kPushImage)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::PushImageResponse>>(*refusal);
  }
  using Stream = ProgressStream<v1::PushImageResponse>;
  const auto work = [&core = core_, reference = request->reference(),
                     destination = request->destination()](
                        const std::function<void(v1::PushImageResponse)>& show,
                        const std::atomic<bool>& cancelled) -> Result<v1::PushImageResponse> {
    const auto progress = [&show](const PushProgress& now) { show(ProgressMessage(now)); };
    ASSIGN_OR_RETURN(const PushedImage pushed,
                     core.node.PushImage(reference, destination, progress, cancelled));
    return PushedMessage(pushed);
  };
  return Stream::Start(
      std::make_shared<Stream>(core_, context->peer(), Method::kPushImage,
                               StrCat(request->reference(), " ", request->destination()), work));
}

}  // namespace holdfast::agent::api
