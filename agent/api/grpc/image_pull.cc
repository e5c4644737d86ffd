// SPDX-License-Identifier: Apache-2.0
// PullImage and ListPulls.
#include <atomic>
#include <functional>
#include <memory>

#include "agent/api/grpc/image_messages.h"
#include "agent/api/grpc/in_namespace.h"
#include "agent/api/grpc/progress_stream.h"
#include "agent/api/grpc/service.h"
#include "agent/images/pod_pulls.h"

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

}  // namespace

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

grpc::ServerWriteReactor<v1::PullImageResponse>* NodeAgentService::PullImage(
    grpc::CallbackServerContext* context, const v1::PullImageRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kPullImage)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::PullImageResponse>>(*refusal);
  }
  using Stream = ProgressStream<v1::PullImageResponse>;
  const auto work = [&core = core_, shows = ShowsEnvironment(), reference = request->reference()](
                        const std::function<void(v1::PullImageResponse)>& show,
                        const std::atomic<bool>& cancelled) -> Result<v1::PullImageResponse> {
    const auto progress = [&show](const PullProgress& now) {
      v1::PullImageResponse message;
      FillProgress(now, *message.mutable_progress());
      show(std::move(message));
    };
    ASSIGN_OR_RETURN(const PulledImage pulled, core.node.PullImage(reference, progress, cancelled));
    v1::PullImageResponse last;
    FillImage(pulled.image, shows, *last.mutable_image());
    return last;
  };
  return Stream::Start(std::make_shared<Stream>(core_, context->peer(), Method::kPullImage,
                                                request->reference(), work));
}

grpc::ServerUnaryReactor* NodeAgentService::ListPulls(grpc::CallbackServerContext* context,
                                                      const v1::ListPullsRequest* request,
                                                      v1::ListPullsResponse* response) {
  return Answer(context, Method::kListPulls, *response, [&]() -> Result<void> {
    for (const PodPull& pull : core_.node.pulls().List()) {
      if (!InNamespace(request->namespace_(), pull.pod_namespace)) continue;
      if (!request->pod_uid().empty() && request->pod_uid() != pull.pod_uid) continue;
      auto& out = *response->add_pulls();
      out.set_namespace_(pull.pod_namespace);
      out.set_pod(pull.pod);
      out.set_pod_uid(pull.pod_uid);
      out.set_container(pull.container);
      out.set_image(pull.image);
      out.set_begun_unix_nanos(pull.begun.since_epoch.count());
      FillProgress(pull.progress, *out.mutable_progress());
    }
    return {};
  });
}

}  // namespace holdfast::agent::api
