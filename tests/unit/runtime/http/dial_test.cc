// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include "tests/unit/runtime/http/fixture.h"

namespace holdfast::runtime::http {
namespace {

class DialTest : public HttpTest {};

TEST_F(DialTest, ResolvesNamesAndTriesEachAddress) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Answer(asked, 200, {}, ""); });
  const auto made = Dial(To("localhost"));  // may be ::1 first, where nobody listens
  ASSERT_TRUE(made) << made.error().message();
  (*made)->Close(Unavailable("done"));
}

TEST_F(DialTest, OnlyTheServerThatWasMeantIsTaken) {
  Serve([](ScriptedHttpServer&, const Asked&) {});
  DialOptions options = To();
  options.server_name = "other";
  const auto named = Dial(options);
  ASSERT_FALSE(named);
  EXPECT_NE(named.error().message().find("TLS handshake with 127.0.0.1:"), std::string::npos);
  const auto signed_by_another = Dial(To(), "other.crt");
  ASSERT_FALSE(signed_by_another);
  EXPECT_EQ(signed_by_another.error().code(), Code::kUnavailable);
}

TEST_F(DialTest, NobodyListens) {
  Serve([](ScriptedHttpServer&, const Asked&) {});
  DialOptions options = To();
  options.port = 1;
  const auto made = Dial(options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message(), "connect 127.0.0.1:1: Connection refused");
}

TEST_F(DialTest, ASilentPeerCostsTheLimitOnly) {
  Serve([](ScriptedHttpServer&, const Asked&) {});
  boost::asio::ip::tcp::acceptor silent(io_, {boost::asio::ip::make_address("127.0.0.1"), 0});
  DialOptions options = To();
  options.port = silent.local_endpoint().port();
  options.limit = milliseconds(100);
  const auto made = Dial(options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kDeadlineExceeded);
}

TEST_F(DialTest, GivenUpMeansNobodyIsTold) {
  Serve([](ScriptedHttpServer&, const Asked&) {});
  bool called = false;
  auto dialling = http::Dial(io_, boost::asio::ssl::context(boost::asio::ssl::context::tls_client),
                             To(), [&](auto) { called = true; });
  io_.poll_one();  // not as far as a connection
  dialling.reset();
  io_.restart();
  io_.run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace holdfast::runtime::http
