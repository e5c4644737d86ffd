// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/grpc/targets.h"

#include <string>

#include "agent/api/grpc/frame_guard.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

// In pieces of any size the guard sees the same frames.
void FuzzHttp2(std::string_view input) {
  const agent::api::FrameGuard::Time now{};
  agent::api::FrameGuard whole(100, now);
  agent::api::FrameGuard pieces(100, now);
  const std::string bytes = std::string(agent::api::http2::kPreface) + std::string(input);
  const bool refused = whole.FromClient(bytes, now).has_value();
  bool refused_piece = false;
  for (const char byte : bytes) {
    if (refused_piece) break;
    refused_piece = pieces.FromClient({&byte, 1}, now).has_value();
  }
  Require(refused == refused_piece, "pieces are judged as the whole", input);
  Require(refused || whole.OpenCalls() == pieces.OpenCalls(), "pieces open the same calls", input);
}

}  // namespace holdfast::fuzz
