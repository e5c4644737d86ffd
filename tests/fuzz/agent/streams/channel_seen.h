// SPDX-License-Identifier: Apache-2.0
// What a channel's messages have said.
#pragma once

#include <string>

#include "agent/api/kubelet/streams/wire/channel_messages.h"

namespace holdfast::fuzz {

class ChannelSeen final : public agent::streams::ChannelEvents {
 public:
  void OnInput(std::string_view bytes) override { input += bytes; }
  void OnInputEnd() override { ++ends; }
  void OnSize(agent::TerminalSize size) override { last = size; }
  std::string input;
  size_t ends = 0;
  agent::TerminalSize last;
};

}  // namespace holdfast::fuzz
