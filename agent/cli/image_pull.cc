// SPDX-License-Identifier: Apache-2.0
// image pull: a line per layer that is written over on a terminal, a line per change otherwise.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

#include "agent/cli/commands.h"
#include "agent/cli/image_pull.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using Progress = v1::PullImageResponse::Progress;
using Layer = v1::PullImageResponse::Layer;

constexpr size_t kBarWidth = 30;
constexpr size_t kShownDigits = 12;
constexpr int kShownLayers = 40;  // more than a screen cannot be written over

std::string ShortDigest(const std::string& digest) {
  const size_t colon = digest.find(':');
  return digest.substr(colon == std::string::npos ? 0 : colon + 1, kShownDigits);
}

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

std::string Bar(const Layer& layer) {
  const double share = layer.size_bytes() == 0 ? 1.0
                                               : static_cast<double>(layer.bytes()) /
                                                     static_cast<double>(layer.size_bytes());
  const auto full = static_cast<size_t>(std::min(share, 1.0) * kBarWidth);
  return StrCat("[", std::string(full, '='), std::string(kBarWidth - full, ' '), "]");
}

// Writes over its own lines.
class TerminalView {
 public:
  void Show(const Progress& progress) {
    std::string text;
    if (lines_ > 0) text = StrCat("\x1b[", lines_, "A");
    lines_ = 0;
    const auto line = [&](const std::string& content) {
      text += StrCat("\x1b[2K", content, "\n");
      ++lines_;
    };
    if (progress.waiting()) line("waiting for other pulls");
    for (const Layer& layer : progress.layers()) {
      if (lines_ == kShownLayers) break;
      line(StrCat(ShortDigest(layer.digest()), "  ", Bar(layer), "  ", HumanBytes(layer.bytes()),
                  "/", HumanBytes(layer.size_bytes()), "  ", StateText(layer.state())));
    }
    // What the picture before this one had more of.
    text += "\x1b[0J";
    Print(text);
  }

 private:
  int lines_ = 0;
};

// Says what is new.
class PlainView {
 public:
  void Show(const Progress& progress) {
    if (progress.waiting() && !waiting_told_) Print("waiting for other pulls\n");
    waiting_told_ = waiting_told_ || progress.waiting();
    for (const Layer& layer : progress.layers()) {
      auto& told = told_[layer.digest()];
      if (told == StateText(layer.state())) continue;
      told = StateText(layer.state());
      Print(StrCat(ShortDigest(layer.digest()), ": ", told, " (", HumanBytes(layer.size_bytes()),
                   ")\n"));
    }
  }

 private:
  bool waiting_told_ = false;
  std::map<std::string, std::string> told_;
};

template <class View>
int Receive(Session& session, const std::string& reference, View view, bool quiet) {
  grpc::ClientContext context;
  v1::PullImageRequest request;
  request.set_reference(reference);
  const auto reader = session.stub().PullImage(&context, request);
  v1::PullImageResponse message;
  v1::Image image;
  while (reader->Read(&message)) {
    if (message.has_image()) image = message.image();
    if (message.has_progress() && !quiet) view.Show(message.progress());
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

}  // namespace

int PullImage(Session& session, const std::string& reference, bool quiet) {
  if (::isatty(STDOUT_FILENO) != 0) return Receive(session, reference, TerminalView(), quiet);
  return Receive(session, reference, PlainView(), quiet);
}

}  // namespace holdfast::agent::cli
