// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "agent/api/kubelet/streams/wire/channel_messages.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "tests/fuzz/agent/streams/channel_seen.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

using namespace agent::streams;

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
