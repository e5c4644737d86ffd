// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/image_pull.h"

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

const char* StateText(v1::PullImageResponse::LayerState state) {
  switch (state) {
    case v1::PullImageResponse::LAYER_STATE_DOWNLOADING:
      return "downloading";
    case v1::PullImageResponse::LAYER_STATE_DOWNLOADED:
      return "downloaded";
    case v1::PullImageResponse::LAYER_STATE_UNPACKING:
      return "unpacking";
    case v1::PullImageResponse::LAYER_STATE_DONE:
      return "done";
    default:
      return "waiting";
  }
}

}  // namespace

std::vector<LayerLine> PullLines(const v1::PullImageResponse::Progress& progress) {
  std::vector<LayerLine> lines;
  for (const auto& layer : progress.layers()) {
    lines.push_back({layer.digest(), layer.size_bytes(), layer.bytes(), StateText(layer.state())});
  }
  return lines;
}

int PullImage(Session& session, const std::string& reference, bool quiet) {
  grpc::ClientContext context;
  v1::PullImageRequest request;
  request.set_reference(reference);
  const auto reader = session.stub().PullImage(&context, request);
  TransferView view;
  v1::PullImageResponse message;
  v1::Image image;
  while (reader->Read(&message)) {
    if (message.has_image()) image = message.image();
    if (!message.has_progress() || quiet) continue;
    view.Show(message.progress().waiting() ? "waiting for other pulls" : "",
              PullLines(message.progress()));
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return ReportChange(status);
  if (quiet) {
    Print(image.id() + "\n");
  } else {
    const std::string name = image.repo_digests().empty() ? image.id() : image.repo_digests(0);
    Print(StrCat("image/", reference, " pulled: ", name, " (", HumanBytes(image.size_bytes()),
                 ")\n"));
  }
  return kOk;
}

}  // namespace holdfast::agent::cli
