// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/cluster/targets.h"

#include <string>
#include <vector>

#include "agent/cluster/reply.h"
#include "agent/cluster/watch_frames.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using agent::WatchFrames;
constexpr size_t kLargest = 1000;

std::vector<std::string> Cut(WatchFrames::Form form, std::string_view bytes, size_t step) {
  WatchFrames frames(form, kLargest);
  std::vector<std::string> seen;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    frames.Append(bytes.substr(0, step));
    while (true) {
      const auto frame = frames.Next();
      if (!frame) return seen;
      if (!*frame) break;
      Require((*frame)->object.size() + (*frame)->type.size() <= kLargest, "the limit holds",
              bytes);
      seen.push_back(std::string((*frame)->type) + " " + std::string((*frame)->object));
    }
  }
  return seen;
}

}  // namespace

void FuzzWatchFrames(std::string_view input) {
  if (input.empty()) return;
  const auto form = input[0] % 2 == 0 ? WatchFrames::Form::kProtobuf : WatchFrames::Form::kJson;
  const std::string_view bytes = input.substr(1);
  Require(Cut(form, bytes, 1) == Cut(form, bytes, bytes.size() + 1),
          "events do not depend on how their bytes come", input);
}

void FuzzReply(std::string_view input) {
  if (input.empty()) return;
  const char* type = input[0] % 2 == 0 ? "application/vnd.kubernetes.protobuf" : "application/json";
  const agent::ApiReply reply =
      agent::ToApiReply({500, {{"content-type", type}, {"retry-after", std::string(input)}}},
                        std::string(input.substr(1)));
  Require(!reply.retry_after || reply.retry_after->count() >= 0, "no wait is negative", input);
}

}  // namespace holdfast::fuzz
