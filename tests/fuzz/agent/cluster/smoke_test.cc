// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/agent/cluster/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, WatchFrames) {
  const std::string event = std::string("\x0a\x05") + "ADDED" + "\x12\x05\x0a\x03" + "one";
  const std::string frame = std::string(3, '\0') + static_cast<char>(event.size()) + event;
  Replay(FuzzWatchFrames,
         {"0" + frame + frame,
          "1{\"type\":\"ADDED\",\"object\":{\"a\":[\"\\\"\"]}}\n{\"type\":\"B\"}\n"},
         "{}[]\",:\\\n");
}

TEST(FuzzSmokeTest, Reply) {
  using namespace std::string_literals;
  Replay(FuzzReply,
         {"0k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x03\x22\x01r"s,
          R"(1{"kind":"Status","reason":"Gone","details":{"retryAfterSeconds":3}})"},
         "{}[]\",:\\");
}

}  // namespace
}  // namespace holdfast::fuzz
