// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/streams/targets.h"

#include <string>

#include "agent/api/kubelet/streams/channel_messages.h"
#include "agent/api/kubelet/streams/spdy_frames.h"
#include "agent/api/kubelet/streams/stream_request.h"
#include "holdfast/base/strings.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using namespace agent::streams;

class SpdySeen final : public SpdyEvents {
 public:
  void OnOpen(uint32_t stream, SpdyHeaders headers, bool last) override {
    log += StrCat("open ", stream, last ? "." : "");
    for (const auto& [name, value] : headers) log += StrCat(name, "=", value, ";");
  }
  void OnData(uint32_t stream, std::string_view bytes, bool last) override {
    for (const char c : bytes) log += StrCat(stream, c);
    if (last) log += StrCat("end ", stream);
  }
  void OnReset(uint32_t stream) override { log += StrCat("reset ", stream); }
  void OnPing(uint32_t id) override { log += StrCat("ping ", id); }
  void OnGoAway() override { log += "goaway"; }
  std::string log;
};

std::string ReadSpdy(std::string_view bytes, size_t step) {
  SpdyReader reader;
  SpdySeen seen;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    if (!reader.Read(bytes.substr(0, step), seen)) return seen.log + "!";
  }
  return seen.log;
}

class ChannelSeen final : public ChannelEvents {
 public:
  void OnInput(std::string_view bytes) override { input += bytes; }
  void OnInputEnd() override { ++ends; }
  void OnSize(agent::TerminalSize size) override { last = size; }
  std::string input;
  size_t ends = 0;
  agent::TerminalSize last;
};

}  // namespace

void FuzzSpdy(std::string_view input) {
  Require(ReadSpdy(input, 1) == ReadSpdy(input, input.size() + 1),
          "frames do not depend on how their bytes come", input);
}

void FuzzChannelMessages(std::string_view input) {
  if (input.empty()) return;
  const bool base64 = input[0] % 2 == 1;
  const std::string_view message = input.substr(1);
  ChannelSeen whole;
  ChannelReader at_once(base64, true);
  const bool taken = at_once.Read(message, true, whole).has_value();
  Require(whole.input.size() <= message.size() && whole.ends <= 1, "no more than was sent", input);
  ChannelSeen cut;
  ChannelReader in_pieces(base64, true);
  bool all = true;
  for (size_t i = 0; i < message.size() && all; ++i) {
    all = in_pieces.Read(message.substr(i, 1), i + 1 == message.size(), cut).has_value();
  }
  if (message.empty()) return;
  Require(all == taken, "a message does not depend on how it comes", input);
  if (all) Require(cut.input == whole.input && cut.last == whole.last, "nor what it says", input);
}

void FuzzStreamRequest(std::string_view input) {
  const auto request = ParseStreamRequest(input);
  if (!request) {
    Require(request.error().status >= 400 && !request.error().text.empty(), "why not", input);
    return;
  }
  Require(!request->pod.empty() && !request->pod_namespace.empty(), "a pod is named", input);
  (void)ParsePorts(request->ports);
}

}  // namespace holdfast::fuzz
