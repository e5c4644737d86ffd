// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/http/fixture.h"

namespace holdfast::runtime::http {
namespace {

using How = StreamEnd::How;
constexpr auto kHttp1 = ScriptedHttpServer::Protocol::kHttp1;

class H1ConnectionTest : public HttpTest {};

TEST_F(H1ConnectionTest, RequestsFollowEachOther) {
  Serve(
      [](ScriptedHttpServer& server, const Asked& asked) {
        server.Answer(asked, 201, {{"X-Test", "1"}}, asked.method + asked.path + asked.body);
      },
      kHttp1);
  Open();
  EXPECT_FALSE(connection_->multiplexed());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(connection_->room(), 1u);
    Request request;
    request.method = "POST";
    request.path = "/a";
    request.body = "body";
    const auto answer = Ask(std::move(request));
    EXPECT_EQ(connection_->room(), 0u);
    ASSERT_TRUE(Ended(answer));
    EXPECT_EQ(answer->end->how, How::kComplete) << answer->end->error.message();
    EXPECT_EQ(answer->head.status, 201);
    EXPECT_EQ(Find(answer->head.headers, "x-test"), "1");
    EXPECT_EQ(answer->body, "POST/abody");
  }
  EXPECT_EQ(server_->connections(), 1u);
}

TEST_F(H1ConnectionTest, AStreamIsShownAsItComesAndHeldBackUnlessConsumed) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Begin(asked, 200, {}); },
        kHttp1);
  Open();
  const auto answer = Get("/watch", false);
  ASSERT_TRUE(Until([&] { return answer->head.status == 200; }));
  server_->Write(server_->asked()[0], "one");
  ASSERT_TRUE(Until([&] { return answer->body == "one"; }));
  server_->Write(server_->asked()[0], std::string(1'000'000, 'x'));
  server_->End(server_->asked()[0]);
  ASSERT_TRUE(Until([&] { return answer->body.size() >= kStreamWindow; }));
  io_.restart();
  io_.run_for(milliseconds(50));
  EXPECT_LT(answer->body.size(), kStreamWindow + (20 << 10));
  answer->consumes = true;
  connection_->Consume(answer->stream, answer->body.size());
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->how, How::kComplete);
  EXPECT_EQ(answer->body.size(), 1'000'003u);
}

TEST_F(H1ConnectionTest, WhatIsCutFailedAndCancellingCloses) {
  Serve(
      [](ScriptedHttpServer& server, const Asked& asked) {
        server.Begin(asked, 200, {});
        if (asked.path == "/cut") server.Cut(asked.connection);
      },
      kHttp1);
  Open();
  const auto cut = Get("/cut");
  ASSERT_TRUE(Ended(cut));
  EXPECT_EQ(cut->end->how, How::kFailed);
  EXPECT_FALSE(connection_->usable());
  Open();
  const auto cancelled = Get("/");
  ASSERT_TRUE(Until([&] { return cancelled->head.status == 200; }));
  connection_->Cancel(cancelled->stream);
  EXPECT_TRUE(connection_->closed());
  EXPECT_EQ(cancelled->ends, 0);
}

TEST_F(H1ConnectionTest, AConnectionThatTheServerEndedHasNoRoom) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Answer(asked, 200, {}, "x"); },
        kHttp1);
  Open();
  ASSERT_TRUE(Ended(Get("/")));
  EXPECT_EQ(connection_->room(), 1u);
  server_->Cut(0);
  EXPECT_TRUE(Until([&] { return connection_->room() == 0; }));
}

TEST_F(H1ConnectionTest, InterimAnswersAreSkippedAsLongAsTheirHeadersAreFew) {
  Serve(
      [](ScriptedHttpServer& server, const Asked& asked) {
        const size_t size = asked.path == "/few" ? 100 : 10'000;
        for (int i = 0; i < 10; ++i) server.Begin(asked, 103, {{"link", std::string(size, 'a')}});
        server.Answer(asked, 200, {}, "x");
      },
      kHttp1);
  Open();
  for (int i = 0; i < 2; ++i) {  // counted for each answer
    const auto few = Get("/few");
    ASSERT_TRUE(Ended(few));
    EXPECT_EQ(few->end->how, How::kComplete);
    EXPECT_EQ(few->body, "x");
  }
  const auto many = Get("/many");
  ASSERT_TRUE(Ended(many));
  EXPECT_EQ(many->end->error.code(), Code::kResourceExhausted);
}

TEST_F(H1ConnectionTest, LimitOfTheBodyHolds) {
  Serve([](ScriptedHttpServer& server,
           const Asked& asked) { server.Answer(asked, 200, {}, std::string(5'001, 'x')); },
        kHttp1);
  Open();
  Request request;
  request.body_limit = 5'000;
  const auto answer = Ask(std::move(request));
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->error.code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace holdfast::runtime::http
