// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/api_client.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "holdfast/base/strings.h"
#include "tests/fakes/fake_api_server.h"

namespace holdfast::agent {
namespace {

using test_support::FakeApiServer;
using Manner = FakeApiServer::Manner;
using std::chrono::milliseconds;

constexpr milliseconds kLimit{300};  // of requests that are to hang
constexpr milliseconds kNever{20'000};
constexpr char kLeases[] = "/apis/coordination.k8s.io/v1/namespaces/n/leases";

class ApiClientTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    keys_.emplace(directory_, "IP:127.0.0.1,DNS:localhost");
    server_.emplace(*keys_);
  }
  void TearDown() override {
    client_.reset();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  KubeConfig Config() const {
    KubeConfig config;
    config.server = StrCat("https://127.0.0.1:", server_->port());
    config.host = "127.0.0.1";
    config.port = server_->port();
    config.tls_server_name = config.host;
    config.authority.file = keys_->Path("ca.crt");
    config.certificate.file = keys_->Path("client.crt");
    config.key.file = keys_->Path("client.key");
    return config;
  }

  void Use(KubeConfig config, milliseconds limit = kNever) {
    auto made = ApiClient::Make(io_, std::move(config), limit);
    ASSERT_TRUE(made) << made.error().message();
    client_ = std::move(*made);
  }

  Result<ApiAnswer> Ask(ApiRequest request) {
    std::optional<Result<ApiAnswer>> got;
    client_->Send(std::move(request), [&](Result<ApiAnswer> answer) { got = std::move(answer); });
    io_.restart();
    while (!got && io_.run_one() > 0) {
    }
    return got ? std::move(*got) : Result<ApiAnswer>(Internal("done was not called"));
  }
  Result<ApiAnswer> Get() { return Ask({ApiMethod::kGet, StrCat(kLeases, "/a"), ""}); }
  Result<ApiAnswer> Post() {
    return Ask({ApiMethod::kPost, kLeases, R"({"metadata":{"name":"a"}})"});
  }

  std::string directory_ = std::filesystem::temp_directory_path() / "api-client-XXXXXX";
  std::optional<test_support::TlsKeys> keys_;
  std::optional<FakeApiServer> server_;
  boost::asio::io_context io_;
  std::unique_ptr<ApiClient> client_;
};

TEST_F(ApiClientTest, RequestsFollowEachOtherOnOneConnection) {
  KubeConfig config = Config();
  config.token = "secret";
  config.path = "/prefix";
  Use(std::move(config));
  ASSERT_EQ(Post()->status, 201);
  const auto got = Get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->status, 200);
  EXPECT_NE(got->body.find("resourceVersion"), std::string::npos);
  const auto seen = server_->seen();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].method, "POST");
  EXPECT_EQ(seen[0].path, StrCat("/prefix", kLeases));
  EXPECT_EQ(seen[1].path, StrCat("/prefix", kLeases, "/a"));
  EXPECT_EQ(seen[1].authorization, "Bearer secret");
  EXPECT_EQ(seen[0].connection, seen[1].connection);
}

TEST_F(ApiClientTest, ServersMayBeNamed) {
  KubeConfig config = Config();
  config.host = config.tls_server_name = "localhost";
  Use(std::move(config));
  const auto got = Get();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->status, 404);
}

TEST_F(ApiClientTest, AHangingRequestEndsInTime) {
  Use(Config(), kLimit);
  server_->Behave(Manner::kSilent);
  const auto began = std::chrono::steady_clock::now();
  const auto got = Get();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kDeadlineExceeded) << got.error().message();
  EXPECT_GE(std::chrono::steady_clock::now() - began, kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLimit + milliseconds(5000));
}

TEST_F(ApiClientTest, ManyHangingOnesDoNotWaitForEachOther) {
  Use(Config(), kLimit);
  server_->Behave(Manner::kSilent);
  int ended = 0;
  for (int i = 0; i < 20; ++i) {
    client_->Send({ApiMethod::kGet, kLeases, ""}, [&](const Result<ApiAnswer>& answer) {
      EXPECT_FALSE(answer);
      ++ended;
    });
  }
  EXPECT_EQ(ended, 0) << "not from within Send()";
  const auto began = std::chrono::steady_clock::now();
  io_.run();
  EXPECT_EQ(ended, 20);
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLimit + milliseconds(5000));
}

TEST_F(ApiClientTest, AnEndedConnectionIsMadeAnew) {
  Use(Config());
  ASSERT_EQ(Get()->status, 404);
  server_->EndConnections();
  const auto again = Get();
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_NE(server_->seen().front().connection, server_->seen().back().connection);
  server_->Behave(Manner::kLastAnswer);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Get()) << i;
}

TEST_F(ApiClientTest, WhatIsNoAnswerIsAnError) {
  Use(Config());
  for (const Manner manner : {Manner::kNoHttp, Manner::kEndless}) {
    server_->Behave(manner);
    const auto got = Get();
    ASSERT_FALSE(got) << got->status << " " << got->body.size();
    EXPECT_EQ(got.error().code(), Code::kUnavailable) << got.error().message();
    EXPECT_TRUE(got.error().message().starts_with("read from https://")) << got.error().message();
  }
  server_->Behave(Manner::kHonest);
  EXPECT_TRUE(Get());
}

TEST_F(ApiClientTest, OnlyTheServerThatIsMeantIsSpokenTo) {
  KubeConfig config = Config();
  config.authority.file = keys_->Path("other.crt");
  Use(config);
  auto got = Get();
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().message().starts_with("TLS handshake")) << got.error().message();
  config = Config();
  config.tls_server_name = "192.0.2.1";
  Use(config);
  got = Get();
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().message().starts_with("TLS handshake")) << got.error().message();
  EXPECT_TRUE(server_->seen().empty()) << "nothing was said to it";
}

TEST_F(ApiClientTest, WithoutItsCertificateTheNodeIsNotLetIn) {
  KubeConfig config = Config();
  config.certificate = config.key = {};
  Use(config);
  EXPECT_FALSE(Get());
  EXPECT_TRUE(server_->seen().empty());
}

TEST_F(ApiClientTest, NobodyThereIsAnError) {
  KubeConfig config = Config();
  server_.reset();
  Use(config);
  const auto got = Get();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_NE(got.error().message().find("refused"), std::string::npos) << got.error().message();
}

TEST_F(ApiClientTest, UnusableCertificatesAreToldAtTheStart) {
  const auto error = [&](const KubeConfig& config) {
    const auto made = ApiClient::Make(io_, config, kLimit);
    return made ? "" : made.error().message();
  };
  KubeConfig config = Config();
  config.authority = {"no pem", ""};
  EXPECT_TRUE(error(config).starts_with("certificate-authority-data: ")) << error(config);
  config = Config();
  config.key.file = keys_->Path("server.key");  // of another certificate
  EXPECT_TRUE(error(config).starts_with("client-key ")) << error(config);
  config = Config();
  config.certificate.file = directory_ + "/missing";
  EXPECT_TRUE(error(config).starts_with("client-certificate: ")) << error(config);
}

TEST_F(ApiClientTest, AClientThatEndsForgetsWhatIsUnderWay) {
  Use(Config());
  server_->Behave(Manner::kSilent);
  bool called = false;
  for (int i = 0; i < 6; ++i) {
    client_->Send({ApiMethod::kGet, kLeases, ""}, [&](const auto&) { called = true; });
  }
  io_.run_for(milliseconds(50));
  client_.reset();
  io_.restart();
  io_.run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace holdfast::agent
