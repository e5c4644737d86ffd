// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/reply.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "k8s/meta/v1/status.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

k8s::io::apimachinery::pkg::apis::meta::v1::Status TooMany() {
  k8s::io::apimachinery::pkg::apis::meta::v1::Status status;
  status.set_code(429);
  status.set_reason("TooManyRequests");
  status.set_message("try again later");
  status.mutable_details()->set_retryafterseconds(7);
  return status;
}

ApiReply Reply(int code, const std::string& type, std::string body,
               runtime::http::Headers more = {}) {
  more.emplace_back("content-type", type);
  return ToApiReply({code, more}, std::move(body));
}

TEST(ReplyTest, AStatusIsReadAsProtobufAndAsJson) {
  for (const bool json : {false, true}) {
    const std::string body = json ? kube::EncodeJson(TooMany()) : kube::EncodeEnvelope(TooMany());
    const ApiReply reply =
        Reply(429, json ? "application/json; charset=utf-8" : "application/vnd.kubernetes.protobuf",
              body);
    EXPECT_FALSE(reply.ok());
    EXPECT_EQ(reply.code, 429);
    EXPECT_EQ(reply.reason, "TooManyRequests");
    EXPECT_EQ(reply.message, "try again later");
    EXPECT_EQ(reply.retry_after, seconds(7));
    EXPECT_EQ(reply.body, body);
  }
}

TEST(ReplyTest, TheHeaderSaysWhenToComeAgain) {
  const std::string type = "application/vnd.kubernetes.protobuf";
  const std::string body = kube::EncodeEnvelope(TooMany());
  EXPECT_EQ(Reply(429, type, body, {{"retry-after", "3"}}).retry_after, seconds(3));
  EXPECT_EQ(Reply(429, "text/plain", "", {{"retry-after", "99999999"}}).retry_after, seconds(3600));
  for (const char* wrong : {"", "-1", "3x", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(Reply(429, "text/plain", "", {{"retry-after", wrong}}).retry_after, std::nullopt);
  }
}

TEST(ReplyTest, WhatIsNoStatusIsShownInParts) {
  const ApiReply html = Reply(500, "text/html", "<html>\n\x01\xff" + std::string(500, 'x'));
  EXPECT_EQ(html.reason, "");
  EXPECT_EQ(html.message, "<html>   " + std::string(191, 'x'));
  // Of the right type, and yet none.
  EXPECT_EQ(Reply(500, "application/json", "{\"kind\":\"Pod\"}").message, "{\"kind\":\"Pod\"}");
  EXPECT_EQ(Reply(500, "application/json", "{").message, "{");
  EXPECT_EQ(Reply(500, "application/vnd.kubernetes.protobuf", "none").message, "none");
}

TEST(ReplyTest, ASuccessIsNotLookedInto) {
  const ApiReply reply = Reply(201, "text/html", "body");
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply.message, "");
  EXPECT_EQ(reply.body, "body");
}

}  // namespace
}  // namespace holdfast::agent
