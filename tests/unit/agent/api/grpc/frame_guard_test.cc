// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/frame_guard.h"

#include <gtest/gtest.h>

#include "tests/support/raw_http2.h"

namespace holdfast::agent::api {
namespace {

using std::chrono::seconds;
using test_support::RawHttp2;

class FrameGuardTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kStreams = 4;

  // "" when the guard lets it pass.
  std::string Give(std::string_view bytes) {
    const auto violation = guard_.FromClient(bytes, now_);
    return violation ? violation->text : "";
  }
  std::string Give(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload = {}) {
    return Give(RawHttp2::Encode(type, flags, stream, payload));
  }
  void Greet() {
    ASSERT_EQ(Give(std::string(RawHttp2::kPreface) + RawHttp2::Encode(RawHttp2::kSettings, 0, 0)),
              "");
  }
  std::string Call(uint32_t stream) {
    return Give(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream, "block");
  }

  FrameGuard::Time now_{};
  FrameGuard guard_{kStreams, now_};
};

TEST_F(FrameGuardTest, WhateverPiecesItComesIn) {
  std::string all(RawHttp2::kPreface);
  all += RawHttp2::Encode(RawHttp2::kSettings, 0, 0, "123456");
  all += RawHttp2::Encode(RawHttp2::kHeaders, 0, 1, "begin");
  all += RawHttp2::Encode(RawHttp2::kContinuation, RawHttp2::kEndHeaders, 1, "end");
  all += RawHttp2::Encode(RawHttp2::kData, RawHttp2::kEndStream, 1, std::string(300, 'x'));
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{10}, all.size()}) {
    FrameGuard guard(kStreams, now_);
    for (size_t i = 0; i < all.size(); i += piece) {
      EXPECT_FALSE(guard.FromClient(std::string_view(all).substr(i, piece), now_)) << piece;
    }
    EXPECT_TRUE(guard.Greeted());
    EXPECT_EQ(guard.OpenCalls(), 1u);
    EXPECT_EQ(guard.LastStream(), 1u);
  }
}

TEST_F(FrameGuardTest, BeginsAsHttp2Does) {
  EXPECT_EQ(Give("PRI * HTTP/1"), "the connection does not begin as HTTP/2 does");
  FrameGuard other(kStreams, now_);
  EXPECT_FALSE(other.FromClient(RawHttp2::kPreface, now_));
  EXPECT_FALSE(other.Greeted());
  const auto refused = other.FromClient(RawHttp2::Encode(RawHttp2::kHeaders, 4, 1), now_);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->text, "the first frame is not SETTINGS");
}

TEST_F(FrameGuardTest, AHeaderBlockHasItsSize) {
  Greet();
  EXPECT_EQ(Give(RawHttp2::kHeaders, 0, 1, std::string(kMaxHeaderBlock - 1, 'x')), "");
  EXPECT_EQ(Give(RawHttp2::kContinuation, 0, 1, "x"), "");
  EXPECT_NE(Give(RawHttp2::kContinuation, 0, 1, "x").find("a header block of more than"),
            std::string::npos);
}

TEST_F(FrameGuardTest, AHeaderBlockEndsAndTheNextBegins) {
  Greet();
  const std::string large(kMaxHeaderBlock, 'x');
  for (uint32_t stream = 1; stream <= 2 * kStreams; stream += 2) {
    EXPECT_EQ(Give(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream, large), "");
  }
}

TEST_F(FrameGuardTest, AHeaderBlockIsOfItsOwnFrames) {
  Greet();
  EXPECT_EQ(Give(RawHttp2::kHeaders, 0, 1, "x"), "");
  const std::string expected = "a header block that its own frames do not end";
  {
    FrameGuard copy = guard_;
    EXPECT_EQ(copy.FromClient(RawHttp2::Encode(RawHttp2::kData, 0, 1, "x"), now_)->text, expected);
  }
  EXPECT_EQ(Give(RawHttp2::kContinuation, 0, 3, "x"), expected);
  FrameGuard fresh(kStreams, now_);
  EXPECT_FALSE(fresh.FromClient(RawHttp2::kPreface, now_));
  EXPECT_FALSE(fresh.FromClient(RawHttp2::Encode(RawHttp2::kSettings, 0, 0), now_));
  EXPECT_EQ(fresh.FromClient(RawHttp2::Encode(RawHttp2::kContinuation, 4, 1), now_)->text,
            expected);
}

TEST_F(FrameGuardTest, CallsAreOpenUntilEitherSideEndsThem) {
  Greet();
  for (const uint32_t stream : {1u, 3u, 5u, 7u}) EXPECT_EQ(Call(stream), "");
  EXPECT_EQ(guard_.OpenCalls(), kStreams);
  // The server's trailers, its DATA with the end, its reset; the client's reset.
  guard_.ToClient(RawHttp2::Encode(RawHttp2::kHeaders, RawHttp2::kEndHeaders, 1) +
                  RawHttp2::Encode(RawHttp2::kHeaders, 5, 1) +
                  RawHttp2::Encode(RawHttp2::kData, 0, 3, "x") +
                  RawHttp2::Encode(RawHttp2::kData, 1, 3, "x") +
                  RawHttp2::Encode(RawHttp2::kRstStream, 0, 5, "1234"));
  EXPECT_EQ(Give(RawHttp2::kRstStream, 0, 7, "1234"), "");
  EXPECT_EQ(guard_.OpenCalls(), 0u);
  for (const uint32_t stream : {9u, 11u, 13u, 15u}) EXPECT_EQ(Call(stream), "");
  EXPECT_EQ(Call(17), "more than 4 calls at once on one connection");
}

TEST_F(FrameGuardTest, FramesThatCarryNothingAreRationed) {
  Greet();  // costs one
  const std::string ping = RawHttp2::Encode(RawHttp2::kPing, 0, 0, "12345678");
  for (int64_t i = 1; i < kControlFrameBurst; ++i) ASSERT_EQ(Give(ping), "") << i;
  {
    FrameGuard spent = guard_;
    EXPECT_TRUE(spent.FromClient(ping, now_));
  }
  // A second earns a hundred; DATA and calls cost nothing.
  now_ += seconds(1);
  for (int64_t i = 0; i < kControlFramesPerSecond; ++i) ASSERT_EQ(Give(ping), "") << i;
  EXPECT_EQ(Call(1), "");
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(Give(RawHttp2::kData, 0, 1, "x"), "");
  EXPECT_EQ(Give(RawHttp2::kData, RawHttp2::kEndStream, 1), "");
  // What was sent to the client earns the updates of its windows.
  guard_.ToClient(RawHttp2::Encode(RawHttp2::kData, 0, 1, std::string(320 - 9, 'x')));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Give(RawHttp2::kWindowUpdate, 0, 0, RawHttp2::Number(1)), "");
  }
  EXPECT_NE(Give(RawHttp2::kData, 0, 1).find("too many frames that carry nothing"),
            std::string::npos);
}

TEST_F(FrameGuardTest, AFrameOfOursFitsOnlyBetweenFrames) {
  EXPECT_TRUE(guard_.CanInsertToClient());
  const std::string data = RawHttp2::Encode(RawHttp2::kData, 0, 1, "12345");
  guard_.ToClient(data.substr(0, 4));
  EXPECT_FALSE(guard_.CanInsertToClient());
  guard_.ToClient(data.substr(4, 6));
  EXPECT_FALSE(guard_.CanInsertToClient());
  guard_.ToClient(data.substr(10));
  EXPECT_TRUE(guard_.CanInsertToClient());
  guard_.ToClient(RawHttp2::Encode(RawHttp2::kHeaders, 0, 1, "x"));
  EXPECT_FALSE(guard_.CanInsertToClient());
  guard_.ToClient(RawHttp2::Encode(RawHttp2::kContinuation, RawHttp2::kEndHeaders, 1, "x"));
  EXPECT_TRUE(guard_.CanInsertToClient());
}

TEST(GoawayTest, IsAFrame) {
  EXPECT_EQ(http2::Goaway(5, http2::ErrorCode::kEnhanceYourCalm, "why"),
            RawHttp2::Encode(RawHttp2::kGoaway, 0, 0,
                             RawHttp2::Number(5) + RawHttp2::Number(11) + "why"));
}

}  // namespace
}  // namespace holdfast::agent::api
