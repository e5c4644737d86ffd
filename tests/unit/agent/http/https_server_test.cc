// SPDX-License-Identifier: Apache-2.0
// HttpsServer against clients of every kind, over TLS on loopback.
#include "agent/http/https_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/http/client_authority.h"
#include "tests/support/tls_client.h"
#include "tests/support/tls_keys.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using test_support::TlsClient;
using test_support::TlsKeys;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpsServerTest : public ::testing::Test {
 protected:
  HttpsServerTest() {
    std::string name = "/tmp/holdfast-https-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~HttpsServerTest() override {
    if (server_) server_->Stop();
    held_.clear();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start(HttpsLimits limits = {}) {
    ServingCertificateOptions serving;
    serving.directory = directory_ + "/pki";
    serving.names = {"node-1", "127.0.0.1"};
    auto certificate = ServingCertificate::Open(serving);
    ASSERT_TRUE(certificate) << certificate.error().message();
    certificate_ = std::move(*certificate);
    HttpsServerOptions options;
    options.address = "127.0.0.1";
    options.limits = limits;
    options.log = [](const std::string&) {};
    options.handler = [this](const ExchangePtr& exchange) { OnRequest(exchange); };
    auto server = HttpsServer::Start(std::move(options), *certificate_);
    ASSERT_TRUE(server) << server.error().message();
    server_ = std::move(*server);
    ASSERT_NE(server_->port(), 0);
  }

  virtual void OnRequest(const ExchangePtr& exchange) {
    const std::string target(exchange->request().target());
    if (target == "/stream") return Stream(exchange);
    if (target == "/drop") return;
    if (target == "/take") {
      std::lock_guard lock(mutex_);
      taken_.push_back(std::make_unique<UpgradedConnection>(exchange->Release()));
      changed_.notify_all();
      return;
    }
    if (target == "/hold") {
      std::lock_guard lock(mutex_);
      held_.push_back(exchange);
      changed_.notify_all();
      return;
    }
    exchange->Answer({.body = target + " " + exchange->request().body() + "\n"});
  }

  void Stream(const ExchangePtr& exchange) {
    std::lock_guard lock(mutex_);
    held_.push_back(exchange);
    exchange->Begin({}, {.passed =
                             [this] {
                               std::lock_guard inner(mutex_);
                               ++passed_;
                               changed_.notify_all();
                             },
                         .gone =
                             [this] {
                               std::lock_guard inner(mutex_);
                               ++gone_;
                               changed_.notify_all();
                             }});
  }

  template <class Ready>
  bool Eventually(Ready ready, milliseconds limit = milliseconds(5000)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, ready);
  }

  int Gone() {
    std::lock_guard lock(mutex_);
    return gone_;
  }

  std::string directory_;
  std::unique_ptr<ServingCertificate> certificate_;
  std::unique_ptr<HttpsServer> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExchangePtr> held_;
  std::vector<std::unique_ptr<UpgradedConnection>> taken_;
  int passed_ = 0, gone_ = 0;
};

TEST_F(HttpsServerTest, AnswersRequestsOneAfterTheOtherOnOneConnection) {
  Start();
  TlsClient client(server_->port());
  ASSERT_TRUE(client.ok()) << client.error();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(), testing::AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                                                  HasSubstr("Content-Type: text/plain"),
                                                  HasSubstr("Date: "), EndsWith("/a \n")));
  client.Send(
      "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /c HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(), EndsWith("/b body\n"));
  EXPECT_THAT(client.ReadAnswer(), EndsWith("/c \n"));
  client.Send("GET /d HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), EndsWith("/d \n"));
}

TEST_F(HttpsServerTest, ADroppedRequestIsAnswered500) {
  Start();
  TlsClient client(server_->port());
  client.Send("GET /drop HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpsServerTest, AnAnswerInPiecesBeginsAtOnceAndEndsInOrder) {
  Start();
  TlsClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked"));
  ASSERT_TRUE(Eventually([&] { return passed_ == 1; }));
  const ExchangePtr exchange = held_.front();
  exchange->Post([exchange] { exchange->Write("hello"); });
  ASSERT_TRUE(Eventually([&] { return passed_ == 2; }));
  exchange->Post([exchange] { exchange->End(); });
  EXPECT_EQ(client.ReadAll(), "5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(Gone(), 0);
}

TEST_F(HttpsServerTest, AReaderThatLeavesIsNoticedWhileNothingIsSent) {
  Start();
  for (const bool reset : {false, true}) {
    TlsClient client(server_->port());
    client.Send("GET /stream HTTP/1.1\r\n\r\n");
    client.ReadUntil("\r\n\r\n");
    const int before = Gone();
    if (reset) {
      const linger hard{1, 0};
      ::setsockopt(client.socket(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      client.Close();
    } else {
      ::shutdown(client.socket(),
                 SHUT_WR);  // half-closed: nobody reads any more as far as HTTP goes
    }
    EXPECT_TRUE(Eventually([&] { return gone_ == before + 1; }, milliseconds(1000)));
  }
}

TEST_F(HttpsServerTest, WhoSendsMuchBeforeHeIsAnsweredIsDropped) {
  Start();
  for (const size_t size : {20u << 10, 60u << 10, 79u << 10, 300u << 10}) {
    TlsClient client(server_->port());
    client.Send("GET /stream HTTP/1.1\r\n\r\n" + std::string(size, 'x'));
    client.ReadAll();
    EXPECT_FALSE(client.ok());
  }
  EXPECT_TRUE(Eventually([&] { return gone_ == 4; }));
}

TEST_F(HttpsServerTest, AReaderThatReadsNothingIsDroppedWhenAPieceDoesNotPass) {
  HttpsLimits limits;
  limits.write = milliseconds(300);
  Start(limits);
  TlsClient client(server_->port());
  client.Send("GET /stream HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return passed_ == 1; }));
  const ExchangePtr exchange = held_.front();
  exchange->Post([exchange] { exchange->Write(std::string(64u << 20, 'x')); });
  EXPECT_TRUE(Eventually([&] { return gone_ == 1; }));
}

TEST_F(HttpsServerTest, AConnectionIsGivenAwayWithWhatCameBehindTheRequest) {
  Start();
  TlsClient client(server_->port());
  client.Send("GET /take HTTP/1.1\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nahead");
  ASSERT_TRUE(Eventually([&] { return taken_.size() == 1; }));
  UpgradedConnection& taken = *taken_.front();
  EXPECT_EQ(taken.request.target(), "/take");
  const auto rest = taken.rest.cdata();
  EXPECT_EQ(std::string(static_cast<const char*>(rest.data()), rest.size()), "ahead");
  boost::system::error_code error;
  boost::asio::write(taken.stream, boost::asio::buffer(std::string("mine\n")), error);
  EXPECT_EQ(client.ReadUntil("\n"), "mine\n");
  server_->Stop();
  taken_.clear();
}

TEST_F(HttpsServerTest, HeadersAndBodiesAreBounded) {
  Start();
  const std::string huge(70u << 10, 'a');
  TlsClient header(server_->port());
  header.Send("GET / HTTP/1.1\r\nX: " + huge + "\r\n\r\n");
  EXPECT_THAT(header.ReadAll(), StartsWith("HTTP/1.1 431 "));
  TlsClient body(server_->port());
  body.Send("POST / HTTP/1.1\r\nContent-Length: 2000000\r\n\r\nxyz");
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 413 "));
  TlsClient lie(server_->port());
  lie.Send("POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(lie.ReadAll(), StartsWith("HTTP/1.1 400 "));
  TlsClient chunks(server_->port());
  std::string many = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 40; ++i) many += "10000\r\n" + std::string(0x10000, 'b') + "\r\n";
  chunks.Send(many + "0\r\n\r\n");
  EXPECT_THAT(chunks.ReadAll(), testing::Not(HasSubstr("200 OK")));
  TlsClient garbage(server_->port());
  garbage.Send("\x01\x02\x03 nothing\r\n\r\n");
  EXPECT_THAT(garbage.ReadAll(), StartsWith("HTTP/1.1 400 "));
}

// One byte now and then never ends a request in time, and no such client holds the others up.
TEST_F(HttpsServerTest, SlowSendersAreDropped) {
  HttpsLimits limits;
  limits.request = milliseconds(400);
  limits.handshake = milliseconds(400);
  Start(limits);
  TlsClient slow(server_->port());
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 40 && slow.ok(); ++i) {
    slow.Send(i == 0 ? "GET / HTTP/1.1\r\n" : "X");
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_FALSE(slow.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(2500));
  const int plain = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // says nothing
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(server_->port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(plain, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const timeval patience{5, 0};
  ::setsockopt(plain, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte = 0;
  EXPECT_EQ(::recv(plain, &byte, 1, 0), 0);
  ::close(plain);
}

TEST_F(HttpsServerTest, IdleConnectionsEnd) {
  HttpsLimits limits;
  limits.idle = milliseconds(200);
  Start(limits);
  TlsClient client(server_->port());
  client.Send("GET / HTTP/1.1\r\n\r\n");
  client.ReadAnswer();
  EXPECT_EQ(client.ReadAll(), "");
}

// Whoever floods takes his own places: who is being answered keeps his, and others get in.
TEST_F(HttpsServerTest, AFloodOfConnectionsKeepsNobodyOut) {
  HttpsLimits limits;
  limits.connections = 8;
  Start(limits);
  TlsClient reader(server_->port());
  reader.Send("GET /stream HTTP/1.1\r\n\r\n");
  reader.ReadUntil("\r\n\r\n");
  std::vector<std::unique_ptr<TlsClient>> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(std::make_unique<TlsClient>(server_->port()));
  TlsClient late(server_->port());
  late.Send("GET /late HTTP/1.1\r\n\r\n");
  EXPECT_THAT(late.ReadAnswer(), EndsWith("/late \n"));
  EXPECT_EQ(Gone(), 0);
  int open = 0;
  for (const auto& client : flood) {
    client->Send("GET / HTTP/1.1\r\n\r\n");
    open += client->ReadAnswer().empty() ? 0 : 1;
  }
  EXPECT_LE(open, 8);
}

TEST_F(HttpsServerTest, OldTlsAndRenegotiationAreNotHad) {
  Start();
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const auto handshake = [&](int version) {
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
    SSL_set_min_proto_version(ssl.get(), version);
    SSL_set_max_proto_version(ssl.get(), version);
    SSL_set_security_level(ssl.get(), 0);
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket socket(io);
    socket.connect({boost::asio::ip::address_v4::loopback(), server_->port()});
    SSL_set_fd(ssl.get(), socket.native_handle());
    const bool ok = SSL_connect(ssl.get()) == 1;
    const bool renegotiated = ok && version == TLS1_2_VERSION && SSL_renegotiate(ssl.get()) == 1 &&
                              SSL_do_handshake(ssl.get()) == 1;
    return std::pair(ok, renegotiated);
  };
  EXPECT_FALSE(handshake(TLS1_1_VERSION).first);
  EXPECT_EQ(handshake(TLS1_2_VERSION), std::pair(true, false));
  EXPECT_TRUE(handshake(TLS1_3_VERSION).first);
}

TEST_F(HttpsServerTest, StopTellsReadersAndAnswersAfterwardsAreHarmless) {
  Start();
  TlsClient reader(server_->port()), waiting(server_->port());
  reader.Send("GET /stream HTTP/1.1\r\n\r\n");
  reader.ReadUntil("\r\n\r\n");
  waiting.Send("GET /hold HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return held_.size() == 2; }));
  server_->Stop();
  EXPECT_EQ(Gone(), 1);
  held_.back()->Answer({.body = "late"});
  EXPECT_EQ(waiting.ReadAll(), "");
}

// --- certificates ---

std::string ServedName(uint16_t port) {
  TlsClient client(port);
  X509* const certificate = SSL_get1_peer_certificate(client.ssl());
  if (certificate == nullptr) return "";
  char name[200] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  X509_free(certificate);
  return name;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(HttpsServerTest, TheOwnCertificateIsKeptAndMadeAnewWhenItIsNotGood) {
  Start();
  EXPECT_EQ(ServedName(server_->port()), "node-1");
  const std::string first = ReadText(directory_ + "/pki/kubelet.crt");
  EXPECT_THAT(first, StartsWith("-----BEGIN CERTIFICATE"));
  struct stat key{};
  ASSERT_EQ(::stat((directory_ + "/pki/kubelet.key").c_str(), &key), 0);
  EXPECT_EQ(key.st_mode & 0777, 0600u);
  ServingCertificateOptions options;
  options.directory = directory_ + "/pki";
  options.names = {"node-1"};
  ASSERT_TRUE(ServingCertificate::Open(options));
  EXPECT_EQ(ReadText(directory_ + "/pki/kubelet.crt"), first);
  std::filesystem::resize_file(directory_ + "/pki/kubelet.key", 20);
  const std::string left = directory_ + "/pki/.kubelet.key.4711.tmp";  // by one that was killed
  std::ofstream(left) << "half a key";
  ASSERT_TRUE(ServingCertificate::Open(options));
  EXPECT_NE(ReadText(directory_ + "/pki/kubelet.crt"), first);
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(HttpsServerTest, ANewCertificateIsUsedByNewConnectionsAtOnce) {
  Start();
  TlsClient before(server_->port());
  const TlsKeys keys(directory_, "IP:127.0.0.1");
  ASSERT_TRUE(
      certificate_->Replace(ReadText(keys.Path("server.crt")), ReadText(keys.Path("server.key"))));
  EXPECT_EQ(ServedName(server_->port()), "server");
  before.Send("GET /a HTTP/1.1\r\n\r\n");
  EXPECT_THAT(before.ReadAnswer(), EndsWith("/a \n"));
  const auto wrong =
      certificate_->Replace(ReadText(keys.Path("server.crt")), ReadText(keys.Path("client.key")));
  EXPECT_FALSE(wrong);
  EXPECT_EQ(ServedName(server_->port()), "server");
}

TEST_F(HttpsServerTest, FilesAreReadAgainWhenTheyChange) {
  const TlsKeys keys(directory_, "IP:127.0.0.1");
  std::vector<std::string> said;
  ServingCertificateOptions options;
  options.cert_file = directory_ + "/used.crt";
  options.key_file = directory_ + "/used.key";
  options.log = [&](const std::string& line) { said.push_back(line); };
  const auto put = [&](const char* from, const std::string& to) {
    std::filesystem::copy_file(keys.Path(from), to + ".new",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(to + ".new", to);
  };
  put("server.crt", options.cert_file);
  put("server.key", options.key_file);
  auto opened = ServingCertificate::Open(options);
  ASSERT_TRUE(opened) << opened.error().message();
  auto first = (*opened)->Context();
  (*opened)->Refresh();
  EXPECT_EQ((*opened)->Context(), first);
  put("client.crt", options.cert_file);
  (*opened)->Refresh();  // half of it
  (*opened)->Refresh();
  EXPECT_EQ((*opened)->Context(), first);
  EXPECT_EQ(said.size(), 1u);
  put("client.key", options.key_file);
  (*opened)->Refresh();
  EXPECT_NE((*opened)->Context(), first);
}

TEST_F(HttpsServerTest, AClientsCertificateSaysWhoHeIsToItsAuthorityOnly) {
  Start();
  const TlsKeys keys(directory_, "IP:127.0.0.1");
  TlsClient client(server_->port(), {keys.Path("client.crt"), keys.Path("client.key")});
  client.Send("GET /hold HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return held_.size() == 1; })) << client.error();
  const auto& chain = held_.front()->certificates();
  const auto authority = ClientAuthority::Open(keys.Path("ca.crt"));
  const auto user = (*authority)->Verify(chain);
  ASSERT_TRUE(user) << user.error().message();
  EXPECT_EQ(user->name, "client");
  EXPECT_THAT(user->credential_id, StartsWith("X509SHA256="));
  EXPECT_EQ(user->credential_id.size(), 11u + 64u);
  const auto other = ClientAuthority::Open(keys.Path("other.crt"));
  EXPECT_FALSE((*other)->Verify(chain));
  EXPECT_FALSE((*authority)->Verify({"rubbish"}));
  EXPECT_FALSE((*authority)->Verify({}));
  EXPECT_FALSE(ClientAuthority::Open(keys.Path("client.key")));
}

TEST(CipherListTest, TakesGosNamesAndNoOthers) {
  ServingCertificateOptions options;
  const auto pair = MakeSelfSigned({"n"}, std::chrono::hours(24));
  ASSERT_TRUE(pair);
  options.cipher_suites = {"TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"};
  EXPECT_TRUE(MakeServerContext(options, *pair, ""));
  options.cipher_suites = {"TLS_RSA_WITH_RC4_128_SHA"};
  const auto refused = MakeServerContext(options, *pair, "");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("TLS_RSA_WITH_RC4_128_SHA"));
}

}  // namespace
}  // namespace holdfast::agent
