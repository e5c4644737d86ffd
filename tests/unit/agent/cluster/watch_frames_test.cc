// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/watch_frames.h"

#include <gtest/gtest.h>

#include <vector>

#include "holdfast/base/strings.h"
#include "k8s/meta/v1/status.pb.h"
#include "tests/unit/agent/cluster/watch_event_bytes.h"

namespace holdfast::agent {
namespace {

using Form = WatchFrames::Form;
using Seen = std::vector<std::pair<std::string, std::string>>;

// All that can be had; what is wrong as the last entry.
Seen Drain(WatchFrames& frames) {
  Seen seen;
  while (true) {
    const auto frame = frames.Next();
    if (!frame) {
      seen.emplace_back("wrong", frame.error().message());
      return seen;
    }
    if (!*frame) return seen;
    seen.emplace_back((*frame)->type, (*frame)->object);
  }
}

TEST(WatchFramesTest, CutsHoweverTheBytesCome) {
  const std::string large(100'000, 'l');
  const std::string bytes =
      Framed("ADDED", "one") + Framed("MODIFIED", large) + Framed("BOOKMARK", "");
  const Seen expected = {{"ADDED", "one"}, {"MODIFIED", large}, {"BOOKMARK", ""}};
  for (const size_t step : {1u, 7u, 4096u, 1'000'000u}) {
    WatchFrames frames(Form::kProtobuf);
    Seen seen;
    for (size_t at = 0; at < bytes.size(); at += step) {
      frames.Append(std::string_view(bytes).substr(at, step));
      for (auto& one : Drain(frames)) seen.push_back(std::move(one));
    }
    EXPECT_EQ(seen, expected) << step;
    EXPECT_EQ(frames.pending(), 0u);
  }
}

TEST(WatchFramesTest, PendingBytesAreThoseOfNoFrame) {
  const std::string one = Framed("ADDED", "one");
  WatchFrames frames(Form::kProtobuf);
  frames.Append(one + one + one.substr(0, 6));
  EXPECT_EQ(frames.pending(), 2 * one.size() + 6);
  ASSERT_TRUE(frames.Next());
  EXPECT_EQ(frames.pending(), one.size() + 6);
  EXPECT_EQ(Drain(frames).size(), 1u);
  EXPECT_EQ(frames.pending(), 6u);
}

TEST(WatchFramesTest, ALengthIsAClaim) {
  WatchFrames frames(Form::kProtobuf);
  frames.Append(Length(WatchFrames::kLargestFrame));
  EXPECT_EQ(Drain(frames), Seen());
  WatchFrames too_large(Form::kProtobuf);
  too_large.Append(Length(WatchFrames::kLargestFrame + 1));
  const auto frame = too_large.Next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code(), Code::kResourceExhausted);
  WatchFrames lines(Form::kJson, 100);
  lines.Append(std::string(101, ' '));
  EXPECT_EQ(Drain(lines)[0].first, "wrong");
}

TEST(WatchFramesTest, WhatIsNoEventIsRefused) {
  using namespace std::string_literals;
  for (const std::string& bytes :
       {""s, "\x12\x00"s, "\x0a\x05one"s, "\x0b\x01"s, "\x0a"s, "\x0a\x01x\x12\x02\x0a\x05"s,
        "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s}) {
    const auto frame = ParseWatchEvent(bytes);
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().code(), Code::kInvalidArgument);
  }
}

TEST(WatchFramesTest, FieldsOfANewerServerAreSkipped) {
  using namespace std::string_literals;
  const std::string newer =
      "\x18\x05"s + "\x22\x01q"s + "\x29" + std::string(8, '8') + "\x35" + "4444";
  const std::string bytes = newer + "\x0a\x01T" + newer + "\x12\x04" + "\x18\x05" + "\x0a\x00"s;
  const auto frame = ParseWatchEvent(bytes);
  ASSERT_TRUE(frame) << frame.error().message();
  EXPECT_EQ(frame->type, "T");
}

TEST(WatchFramesTest, CutsLinesOfJson) {
  WatchFrames frames(Form::kJson);
  const std::string lines =
      "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\\\"\",\"b\":[{}]}}\n"
      " { \"object\" : {} , \"extra\": 1.5, \"type\" : \"DELETED\" } \r\n{\"type\":\"BOOK";
  Seen seen;
  for (const char c : lines) {
    frames.Append({&c, 1});
    for (auto& one : Drain(frames)) seen.push_back(std::move(one));
  }
  EXPECT_EQ(seen, (Seen{{"ADDED", "{\"a\":\"}\\\"\",\"b\":[{}]}"}, {"DELETED", "{}"}}));
  EXPECT_EQ(frames.pending(), 13u);
}

TEST(WatchFramesTest, LinesThatAreNoEventAreRefused) {
  for (const char* line : {"", "[]", "{", "{}", "{\"type\":1}", "{\"type\":\"A\"", "{\"type\":\"A",
                           "{\"type\" \"A\"}", "{\"type\":\"A\"} x", "{\"type\":\"A\",}",
                           "{\"object\":{\"a\":[}", "{\"type\":}", "{\"object\":{}}"}) {
    EXPECT_FALSE(ParseWatchLine(line)) << line;
  }
}

}  // namespace
}  // namespace holdfast::agent
