// SPDX-License-Identifier: Apache-2.0
// What the tests of connections share: a scripted server, dials to it, and answers as they came.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/http/dial.h"
#include "tests/fakes/scripted_http_server.h"

namespace holdfast::runtime::http {

using test_support::ScriptedHttpServer;
using Asked = ScriptedHttpServer::Asked;
using std::chrono::milliseconds;

struct Answer : ResponseHandler {
  void OnHead(ResponseHead got) override { head = std::move(got); }
  void OnBody(std::string_view bytes) override {
    body.append(bytes);
    if (consumes) connection->Consume(stream, bytes.size());
    if (on_body) on_body();
  }
  void OnEnd(StreamEnd got) override {
    ++ends;
    end = std::move(got);
  }

  Connection* connection = nullptr;
  StreamId stream = 0;
  bool consumes = true;
  std::function<void()> on_body;
  ResponseHead head;
  std::string body;
  std::optional<StreamEnd> end;
  int ends = 0;
};

class HttpTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    keys_.emplace(directory_, "IP:127.0.0.1,DNS:localhost");
  }
  void TearDown() override {
    if (connection_) connection_->Close(Unavailable("the test ends"));
    connection_.reset();
    io_.restart();
    io_.run_for(milliseconds(50));
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Serve(ScriptedHttpServer::Script script,
             ScriptedHttpServer::Protocol protocol = ScriptedHttpServer::Protocol::kHttp2) {
    server_.emplace(*keys_, std::move(script), protocol);
  }

  Result<std::shared_ptr<Connection>> Dial(DialOptions options,
                                           const std::string& authority = "ca.crt") {
    boost::asio::ssl::context tls(boost::asio::ssl::context::tls_client);
    tls.set_verify_mode(boost::asio::ssl::verify_peer);
    tls.load_verify_file(keys_->Path(authority));
    std::optional<Result<std::shared_ptr<Connection>>> made;
    const auto dialling = http::Dial(io_, std::move(tls), std::move(options),
                                     [&](auto result) { made = std::move(result); });
    if (!Until([&] { return made.has_value(); })) return Internal("done was not called");
    return std::move(*made);
  }
  DialOptions To(const std::string& host = "127.0.0.1", ConnectionOptions connection = {}) const {
    DialOptions options;
    options.host = host;
    options.port = server_->port();
    options.connection = connection;
    return options;
  }
  void Open(ConnectionOptions options = {}) {
    auto made = Dial(To("127.0.0.1", options));
    ASSERT_TRUE(made) << made.error().message();
    connection_ = std::move(*made);
  }

  std::shared_ptr<Answer> Ask(Request request, bool consumes = true) {
    auto answer = std::make_shared<Answer>();
    answer->connection = connection_.get();
    answer->consumes = consumes;
    request.authority = "localhost";
    const auto stream = connection_->Start(std::move(request), answer);
    EXPECT_TRUE(stream) << stream.error().message();
    if (stream) answer->stream = *stream;
    return answer;
  }
  std::shared_ptr<Answer> Get(const std::string& path, bool consumes = true) {
    Request request;
    request.path = path;
    return Ask(std::move(request), consumes);
  }

  // Runs the loop until it holds; false after ten seconds.
  bool Until(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds() && std::chrono::steady_clock::now() < limit) {
      io_.restart();
      io_.run_one_for(milliseconds(10));
    }
    return holds();
  }
  bool Ended(const std::shared_ptr<Answer>& answer) {
    return Until([&] { return answer->end.has_value(); });
  }

  std::string directory_ = std::filesystem::temp_directory_path() / "http-XXXXXX";
  std::optional<test_support::TlsKeys> keys_;
  std::optional<ScriptedHttpServer> server_;
  boost::asio::io_context io_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace holdfast::runtime::http
