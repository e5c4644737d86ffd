// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/image_push.h"

#include <cstdio>
#include <vector>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "agent/cli/transfer_view.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

const char* PushStateText(v1::PushImageResponse::LayerState state) {
  switch (state) {
    case v1::PushImageResponse::LAYER_STATE_UPLOADING:
      return "uploading";
    case v1::PushImageResponse::LAYER_STATE_DONE:
      return "done";
    case v1::PushImageResponse::LAYER_STATE_PRESENT:
      return "there already";
    case v1::PushImageResponse::LAYER_STATE_MOUNTED:
      return "taken over from another repository";
    case v1::PushImageResponse::LAYER_STATE_FOREIGN:
      return "not pushed: its type forbids it";
    default:
      return "waiting";
  }
}

std::vector<LayerLine> PushLines(const v1::PushImageResponse::Progress& progress) {
  std::vector<LayerLine> lines;
  for (const auto& layer : progress.layers()) {
    lines.push_back(
        {layer.digest(), layer.size_bytes(), layer.bytes(), PushStateText(layer.state())});
  }
  return lines;
}

}  // namespace

int PushImage(Session& session, const std::string& reference, const std::string& destination,
              bool quiet) {
  grpc::ClientContext context;
  v1::PushImageRequest request;
  request.set_reference(reference);
  request.set_destination(destination);
  const auto reader = session.stub().PushImage(&context, request);
  TransferView view;
  v1::PushImageResponse message;
  v1::PushImageResponse::Pushed pushed;
  while (reader->Read(&message)) {
    if (message.has_pushed()) pushed = message.pushed();
    if (message.has_progress() && !quiet) view.Show("", PushLines(message.progress()));
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return ReportChange(status);
  if (!pushed.index_digest().empty()) {
    std::fprintf(stderr,
                 "note: %s stands for an index here (%s); what was pushed is its image for this "
                 "machine, which has a digest of its own\n",
                 reference.c_str(), pushed.index_digest().c_str());
  }
  if (quiet) {
    Print(pushed.digest() + "\n");
  } else {
    Print(StrCat("image/", pushed.name(), pushed.was_there() ? " was there already: " : " pushed: ",
                 pushed.digest(), " (", HumanBytes(pushed.size_bytes()), ")\n"));
  }
  return kOk;
}

}  // namespace holdfast::agent::cli
