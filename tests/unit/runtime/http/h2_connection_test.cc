// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/strings.h"
#include "tests/unit/runtime/http/fixture.h"

namespace holdfast::runtime::http {
namespace {

using How = StreamEnd::How;

class H2ConnectionTest : public HttpTest {};

// "/size/N" is answered with N bytes, "/open" stays open, others with what was asked.
void Play(ScriptedHttpServer& server, const Asked& asked) {
  if (asked.path.starts_with("/size/")) {
    const size_t size = std::stoul(asked.path.substr(6));
    return server.Answer(asked, 200, {}, std::string(size, 'x'));
  }
  if (asked.path == "/open") return server.Begin(asked, 200, {});
  server.Answer(asked, 201, {{"x-test", "1"}}, asked.method + " " + asked.path + " " + asked.body);
}

TEST_F(H2ConnectionTest, CarriesRequestAndAnswer) {
  Serve(Play);
  Open();
  EXPECT_TRUE(connection_->multiplexed());
  Request request;
  request.method = "PATCH";
  request.path = "/a?b=c";
  request.headers = {{"content-type", "text/x"}};
  request.body = std::string(300'000, 'b');  // more than a window
  const auto answer = Ask(std::move(request));
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->how, How::kComplete);
  EXPECT_EQ(answer->head.status, 201);
  EXPECT_EQ(Find(answer->head.headers, "x-test"), "1");
  EXPECT_EQ(answer->body, "PATCH /a?b=c " + std::string(300'000, 'b'));
  EXPECT_EQ(server_->asked()[0].headers["content-type"], "text/x");
  EXPECT_EQ(server_->asked()[0].headers[":authority"], "localhost");
}

TEST_F(H2ConnectionTest, WhoConsumesNothingStopsNoOther) {
  Serve(Play);
  Open();
  std::vector<std::shared_ptr<Answer>> slow;
  for (int i = 0; i < 70; ++i) slow.push_back(Get("/size/1000000", false));
  ASSERT_TRUE(Until([&] {
    return std::all_of(slow.begin(), slow.end(),
                       [](const auto& answer) { return answer->body.size() == kStreamWindow; });
  }));
  const auto quick = Get("/size/1000000");
  ASSERT_TRUE(Ended(quick));
  EXPECT_EQ(quick->body.size(), 1'000'000u);
  for (const auto& answer : slow) {  // and not a byte more came
    EXPECT_EQ(answer->body.size(), kStreamWindow);
    EXPECT_FALSE(answer->end);
  }
  slow[0]->consumes = true;
  connection_->Consume(slow[0]->stream, kStreamWindow);
  ASSERT_TRUE(Ended(slow[0]));
  EXPECT_EQ(slow[0]->body.size(), 1'000'000u);
}

// More than the connection's window in all, never consumed.
TEST_F(H2ConnectionTest, CancelledStreamsGiveTheirWindowBack) {
  Serve(Play);
  Open();
  for (int i = 0; i < 150; ++i) {
    const auto answer = Get("/size/300000", false);
    ASSERT_TRUE(Until([&] { return answer->body.size() == kStreamWindow; })) << i;
    connection_->Cancel(answer->stream);
    EXPECT_EQ(connection_->running(), 0u);
  }
  EXPECT_TRUE(connection_->usable());
}

TEST_F(H2ConnectionTest, HasRoomForEightyStreams) {
  Serve(Play);
  Open();
  EXPECT_EQ(connection_->room(), 80u);
  std::vector<std::shared_ptr<Answer>> open;
  for (int i = 0; i < 80; ++i) open.push_back(Get("/open"));
  EXPECT_EQ(connection_->room(), 0u);
  connection_->Cancel(open[7]->stream);
  EXPECT_EQ(connection_->room(), 1u);
}

TEST_F(H2ConnectionTest, HandlersMayCancelThemselvesAndBeginOthers) {
  Serve(Play);
  Open();
  const auto first = Get("/size/200000");
  std::shared_ptr<Answer> second;
  first->on_body = [&] {
    connection_->Cancel(first->stream);
    second = Get("/second");
  };
  ASSERT_TRUE(Until([&] { return second && second->end; }));
  EXPECT_EQ(second->body, "GET /second ");
  EXPECT_EQ(first->ends, 0);
  EXPECT_LT(first->body.size(), 200'000u);
}

TEST_F(H2ConnectionTest, AfterGoAwayOnlyProcessedStreamsGoOn) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path == "/first") return server.Begin(asked, 200, {});
    if (asked.path == "/second") server.GoAway(asked.connection, asked.stream - 2);
  });
  Open();
  const auto first = Get("/first");
  ASSERT_TRUE(Until([&] { return first->head.status == 200; }));
  const auto second = Get("/second");
  ASSERT_TRUE(Ended(second));
  EXPECT_EQ(second->end->how, How::kNotProcessed);
  EXPECT_FALSE(connection_->usable());
  EXPECT_EQ(connection_->room(), 0u);
  EXPECT_FALSE(connection_->Start({}, second));
  EXPECT_FALSE(first->end);
  server_->Write(server_->asked()[0], "more");
  server_->End(server_->asked()[0]);
  ASSERT_TRUE(Ended(first));
  EXPECT_EQ(first->end->how, How::kComplete);
  EXPECT_EQ(first->body, "more");
  EXPECT_TRUE(Until([&] { return connection_->closed(); }));
}

TEST_F(H2ConnectionTest, AnAnswerThatIsCutAfterGoAwayWentAway) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Begin(asked, 200, {});
    server.GoAway(asked.connection, asked.stream);
    server.Cut(asked.connection);
  });
  Open();
  const auto answer = Get("/");
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->how, How::kWentAway);
}

TEST_F(H2ConnectionTest, AnAnswerThatIsCutWithoutGoAwayFailed) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Begin(asked, 200, {});
    server.Cut(asked.connection);
  });
  Open();
  const auto answer = Get("/");
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->how, How::kFailed);
  EXPECT_EQ(answer->end->error.code(), Code::kUnavailable);
  EXPECT_TRUE(answer->end->error.message().starts_with("read from 127.0.0.1:"));
  EXPECT_FALSE(connection_->usable());
  EXPECT_TRUE(connection_->closed());
}

TEST_F(H2ConnectionTest, AResetEndsItsStreamOnly) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path == "/internal") return server.Reset(asked, NGHTTP2_INTERNAL_ERROR);
    if (asked.path == "/refused") return server.Reset(asked, NGHTTP2_REFUSED_STREAM);
    Play(server, asked);
  });
  Open();
  const auto internal = Get("/internal"), refused = Get("/refused"), good = Get("/good");
  ASSERT_TRUE(Ended(internal) && Ended(refused) && Ended(good));
  EXPECT_EQ(internal->end->how, How::kFailed);
  EXPECT_NE(internal->end->error.message().find("INTERNAL_ERROR"), std::string::npos);
  EXPECT_EQ(refused->end->how, How::kNotProcessed);
  EXPECT_EQ(good->end->how, How::kComplete);
  EXPECT_TRUE(connection_->usable());
}

TEST_F(H2ConnectionTest, SilenceIsNoAnswerToAPing) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Begin(asked, 200, {});
    if (asked.path == "/frozen") server.Freeze(asked.connection);
  });
  Open({.ping_after = milliseconds(50), .ping_limit = milliseconds(100)});
  const auto waiting = Get("/");
  const auto begin = std::chrono::steady_clock::now();
  Until([&] { return std::chrono::steady_clock::now() - begin > milliseconds(500); });
  EXPECT_FALSE(waiting->end);  // pings were answered
  Get("/frozen");
  ASSERT_TRUE(Ended(waiting));
  EXPECT_EQ(waiting->end->how, How::kFailed);
  EXPECT_NE(waiting->end->error.message().find("no answer to a ping within 100 ms"),
            std::string::npos);
  EXPECT_TRUE(connection_->closed());
}

TEST_F(H2ConnectionTest, LimitsOfBodyAndHeadersHold) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path != "/headers") return Play(server, asked);
    ScriptedHttpServer::Headers headers;
    for (int i = 0; i < 10; ++i) headers.push_back({StrCat("x-", i), std::string(7'000, 'h')});
    server.Answer(asked, 200, headers, "");
  });
  Open();
  Request large;
  large.path = "/size/5001";
  large.body_limit = 5000;
  const auto body = Ask(large), headers = Get("/headers");
  ASSERT_TRUE(Ended(body) && Ended(headers));
  EXPECT_EQ(body->end->error.code(), Code::kResourceExhausted);
  EXPECT_EQ(headers->end->error.code(), Code::kResourceExhausted);
  large.body_limit = 5001;
  const auto fits = Ask(large);
  ASSERT_TRUE(Ended(fits));
  EXPECT_EQ(fits->end->how, How::kComplete);
  EXPECT_EQ(headers->ends + body->ends, 2);
}

TEST_F(H2ConnectionTest, ADrainedConnectionClosesAfterTheLastAnswer) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Begin(asked, 200, {}); });
  Open();
  const auto answer = Get("/");
  ASSERT_TRUE(Until([&] { return answer->head.status == 200; }));
  connection_->Drain();
  EXPECT_FALSE(connection_->usable());
  server_->End(server_->asked()[0]);
  ASSERT_TRUE(Ended(answer));
  EXPECT_EQ(answer->end->how, How::kComplete);
  EXPECT_TRUE(Until([&] { return connection_->closed(); }));
}

TEST_F(H2ConnectionTest, CloseTellsEverybodyOnce) {
  Serve([](ScriptedHttpServer&, const Asked&) {});
  Open();
  const auto one = Get("/1"), other = Get("/2");
  connection_->Close(Unavailable("enough"));
  EXPECT_EQ(one->ends + other->ends, 2);
  EXPECT_EQ(one->end->error.message(), "enough");
}

}  // namespace
}  // namespace holdfast::runtime::http
