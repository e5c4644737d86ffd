// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/grpc_health.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

using namespace std::string_literals;

std::string Text(int http, const runtime::http::Headers& fields, const std::string& body) {
  return HealthOutcome(http, fields, body).text;
}

TEST(GrpcHealthTest, AsksInOneFrame) {
  EXPECT_EQ(HealthQuestion(""), "\0\0\0\0\0"s);
  EXPECT_EQ(HealthQuestion("abc"), "\0\0\0\0\5\x0a\3abc"s);
  EXPECT_EQ(HealthQuestion(std::string(200, 'x')).substr(0, 8), "\0\0\0\0\xcb\x0a\xc8\1"s);
}

TEST(GrpcHealthTest, AnswersInAKubeletsWords) {
  const runtime::http::Headers ok = {{"grpc-status", "0"}};
  const struct {
    std::string body;
    const char* text;
  } bodies[] = {
      {"\0\0\0\0\2\x08\1"s, "service healthy"},
      {"\0\0\0\0\5\x12\1z\x08\1"s, "service healthy"},  // a field that nobody knows
      {"\0\0\0\0\0"s, "service unhealthy (responded with \"UNKNOWN\")"},
      {"\0\0\0\0\2\x08\2"s, "service unhealthy (responded with \"NOT_SERVING\")"},
      {"\0\0\0\0\2\x08\x63"s, "service unhealthy (responded with \"99\")"},
      {"",
       "error: health rpc probe failed: rpc error: code = Internal desc = grpc: the answer is "
       "no HealthCheckResponse"},
  };
  for (const auto& c : bodies) EXPECT_EQ(Text(200, ok, c.body), c.text);
  // What is none: another length, compressed, cut short.
  for (const std::string& body : {"\0\0\0\0\3\x08\1"s, "\1\0\0\0\2\x08\1"s, "\0\0\0\0\1\x08"s,
                                  "\0\0\0\0\3\x12\x7fz"s, "\0\0\0\0\2\x0b\1"s}) {
    EXPECT_EQ(HealthOutcome(200, ok, body).how, CheckOutcome::How::kFailure);
  }
  EXPECT_EQ(Text(200, {{"grpc-status", "12"}, {"grpc-message", "unknown%20service"}}, ""),
            "error: this server does not implement the grpc health protocol "
            "(grpc.health.v1.Health): unknown service");
  EXPECT_EQ(Text(200, {{"grpc-status", "5"}, {"grpc-message", "no"}}, ""),
            "error: health rpc probe failed: rpc error: code = NotFound desc = no");
  EXPECT_EQ(Text(200, {}, ""),
            "error: health rpc probe failed: rpc error: code = Internal desc = server closed the "
            "stream without sending trailers");
  EXPECT_EQ(Text(404, {}, ""),
            "error: health rpc probe failed: rpc error: code = Unknown desc = unexpected HTTP "
            "status code received from server: 404");
}

}  // namespace
}  // namespace holdfast::agent
