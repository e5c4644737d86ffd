// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/transfer_view.h"

#include <unistd.h>

#include <algorithm>

#include "agent/cli/out.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

constexpr size_t kBarWidth = 30;
constexpr size_t kShownDigits = 12;
constexpr int kShownLayers = 40;  // more than a screen cannot be written over

std::string Bar(const LayerLine& layer) {
  const double share =
      layer.size == 0 ? 1.0 : static_cast<double>(layer.bytes) / static_cast<double>(layer.size);
  const auto full = static_cast<size_t>(std::min(share, 1.0) * kBarWidth);
  return StrCat("[", std::string(full, '='), std::string(kBarWidth - full, ' '), "]");
}

}  // namespace

std::string ShortDigest(const std::string& digest) {
  const size_t colon = digest.find(':');
  return digest.substr(colon == std::string::npos ? 0 : colon + 1, kShownDigits);
}

TransferView::TransferView() : terminal_(::isatty(STDOUT_FILENO) != 0) {}

void TransferView::Show(const std::string& note, const std::vector<LayerLine>& layers) {
  if (terminal_) {
    WriteOver(note, layers);
  } else {
    SayWhatIsNew(note, layers);
  }
}

void TransferView::WriteOver(const std::string& note, const std::vector<LayerLine>& layers) {
  std::string text;
  if (lines_ > 0) text = StrCat("\x1b[", lines_, "A");
  lines_ = 0;
  const auto line = [&](const std::string& content) {
    text += StrCat("\x1b[2K", content, "\n");
    ++lines_;
  };
  if (!note.empty()) line(note);
  for (const LayerLine& layer : layers) {
    if (lines_ == kShownLayers) break;
    line(StrCat(ShortDigest(layer.digest), "  ", Bar(layer), "  ", HumanBytes(layer.bytes), "/",
                HumanBytes(layer.size), "  ", layer.state));
  }
  // What the picture before this one had more of.
  text += "\x1b[0J";
  Print(text);
}

void TransferView::SayWhatIsNew(const std::string& note, const std::vector<LayerLine>& layers) {
  if (!note.empty() && note != noted_) Print(note + "\n");
  if (!note.empty()) noted_ = note;
  for (const LayerLine& layer : layers) {
    std::string& told = told_[layer.digest];
    if (told == layer.state) continue;
    told = layer.state;
    Print(StrCat(ShortDigest(layer.digest), ": ", told, " (", HumanBytes(layer.size), ")\n"));
  }
}

}  // namespace holdfast::agent::cli
