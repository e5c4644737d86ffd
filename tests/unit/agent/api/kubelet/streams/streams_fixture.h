// SPDX-License-Identifier: Apache-2.0
// StreamsFixture: a KubeletStreams behind a small TLS listener on the loopback, over fakes whose programs,
// pipes and terminals are real; and clients that speak as kubectl does.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/access/audit.h"
#include "agent/api/kubelet/streams/kubelet_streams.h"
#include "tests/fakes/fake_exec_runtime.h"
#include "tests/fakes/fake_image_store.h"
#include "tests/fakes/fake_node_operations.h"
#include "tests/fakes/fake_pod_view.h"
#include "tests/fakes/fake_service_view.h"
#include "tests/support/eventually.h"
#include "tests/support/tls_keys.h"

namespace holdfast::agent::streams {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace websocket = boost::beast::websocket;
using test_support::Eventually;
using TlsClient = beast::ssl_stream<asio::ip::tcp::socket>;

inline k8s::io::api::core::v1::Pod WebPod() {
  k8s::io::api::core::v1::Pod pod;
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_metadata()->set_name("web");
  pod.mutable_metadata()->set_uid("uid-web");
  pod.mutable_spec()->set_hostnetwork(true);  // its ports are this test's own
  for (const char* name : {"app", "waiting"}) pod.mutable_spec()->add_containers()->set_name(name);
  auto* status = pod.mutable_status()->add_containerstatuses();
  status->set_name("app");
  status->set_containerid("holdfast://c0ffee");
  status->mutable_state()->mutable_running()->mutable_startedat()->set_seconds(1);
  auto* other = pod.mutable_status()->add_containerstatuses();
  other->set_name("waiting");
  other->mutable_state()->mutable_waiting()->set_reason("ContainerCreating");
  return pod;
}

inline size_t EntriesOf(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}
inline size_t OpenDescriptors() { return EntriesOf("/proc/self/fd"); }
inline size_t Threads() { return EntriesOf("/proc/self/task"); }

// Processes whose parent this is.
inline size_t Children() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (int pid = 0; children >> pid;) ++count;
  }
  return count;
}

class StreamsFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    (void)std::signal(SIGPIPE, SIG_IGN);  // as gRPC does in the agent
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-streams-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    keys_ = std::make_unique<test_support::TlsKeys>(directory_, "IP:127.0.0.1,DNS:localhost");
    server_tls_.use_certificate_chain_file(keys_->Path("server.crt"));
    server_tls_.use_private_key_file(keys_->Path("server.key"), asio::ssl::context::pem);
    pods_.SetPod(WebPod());
    audit_ = std::make_unique<access::AuditLog>(AuditPath(), access::kAuditFileBytes,
                                                access::kAuditFiles, clock_);
    streams_ = std::make_unique<KubeletStreams>(node_, *audit_, idle_limit_);
    ASSERT_TRUE(streams_->Start());
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  void TearDown() override {
    streams_->ShutDown();
    asio::post(io_, [this] {
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      io_.stop();
    });
    thread_.join();
    streams_.reset();
    std::filesystem::remove_all(directory_);
  }

  // Programs are children of this process here: they must not hold connections open.
  template <class Socket>
  static void CloseOnExec(Socket& socket) {
    (void)::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  }

  // One connection after the other, as an HTTP server would read their requests.
  void Accept() {
    acceptor_.async_accept([this](const auto& error, asio::ip::tcp::socket socket) {
      if (error) return;
      CloseOnExec(socket);
      struct Coming {
        UpgradedConnection connection;
        http::request_parser<http::string_body> parser;
      };
      auto coming = std::shared_ptr<Coming>(
          new Coming{{{beast::tcp_stream(std::move(socket)), server_tls_}, {}, {}}, {}});
      coming->connection.stream.async_handshake(
          asio::ssl::stream_base::server, [this, coming](const auto& failed) {
            if (failed) return;
            http::async_read(coming->connection.stream, coming->connection.rest, coming->parser,
                             [this, coming](const auto& broken, size_t) {
                               if (broken) return;
                               coming->connection.request = coming->parser.release();
                               coming->connection.user = "jane";
                               coming->connection.from = "192.0.2.1:4711";
                               streams_->Take(std::move(coming->connection));
                             });
          });
      Accept();
    });
  }

  template <class Answer>
  Answer OnServer(std::function<Answer()> ask) {
    std::promise<Answer> answer;
    asio::post(io_, [&] { answer.set_value(ask()); });
    return answer.get_future().get();
  }
  size_t Connections() {
    return OnServer<size_t>([this] { return streams_->count(); });
  }

  std::unique_ptr<TlsClient> Connect() {
    asio::ip::tcp::socket socket(client_io_, asio::ip::tcp::v4());
    CloseOnExec(socket);
    socket.connect(acceptor_.local_endpoint());
    timeval patience{20, 0};
    (void)::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    auto client = std::make_unique<TlsClient>(std::move(socket), client_tls_);
    client->handshake(asio::ssl::stream_base::client);
    return client;
  }

  // An answer in HTTP.
  http::response<http::string_body> Ask(
      const std::string& target,
      const std::vector<std::pair<std::string, std::string>>& headers = {},
      http::verb method = http::verb::post) {
    const auto client = Connect();
    http::request<http::string_body> request(method, target, 11);
    request.set(http::field::host, "node");
    for (const auto& [name, value] : headers) request.insert(name, value);
    request.prepare_payload();
    http::write(*client, request);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    http::read_header(*client, buffer, parser);
    boost::system::error_code error;
    if (parser.get().result_int() != 101) http::read(*client, buffer, parser, error);
    return parser.release();
  }

  // ---- WebSocket -------------------------------------------------------------------------------

  class WebClient {
   public:
    WebClient(std::unique_ptr<TlsClient> client, const std::string& target,
              const std::string& protocol)
        : socket_(std::move(*client)) {
      socket_.set_option(websocket::stream_base::decorator([protocol](websocket::request_type& r) {
        if (!protocol.empty()) r.set(http::field::sec_websocket_protocol, protocol);
      }));
      socket_.handshake(answer, "node", target);
      socket_.binary(true);
    }
    void Send(const std::string& message) { socket_.write(asio::buffer(message)); }
    // The next message; "" after the end.
    std::string Receive() {
      beast::flat_buffer buffer;
      boost::system::error_code error;
      socket_.read(buffer, error);
      if (error) {
        closed = error == websocket::error::closed;
        code = socket_.reason().code;
        return "";
      }
      return beast::buffers_to_string(buffer.data());
    }
    // All messages by channel, until the end.
    std::map<int, std::string> ReceiveAll() {
      std::map<int, std::string> all;
      for (std::string message; !(message = Receive()).empty();) {
        all[static_cast<unsigned char>(message[0])] += message.substr(1);
      }
      return all;
    }
    // Sends all of them while it receives, until the end.
    std::map<int, std::string> SendAndReceive(asio::io_context& io,
                                              const std::vector<std::string>& messages) {
      std::map<int, std::string> all;
      beast::flat_buffer buffer;
      size_t next = 0;
      const std::function<void()> write = [&] {
        if (next == messages.size()) return;
        socket_.async_write(asio::buffer(messages[next++]),
                            [&](const boost::system::error_code& error, size_t) {
                              if (!error) write();
                            });
      };
      const std::function<void()> read = [&] {
        socket_.async_read(buffer, [&](const boost::system::error_code& error, size_t) {
          if (error) return;
          const std::string message = beast::buffers_to_string(buffer.data());
          buffer.consume(buffer.size());
          all[static_cast<unsigned char>(message.at(0))] += message.substr(1);
          read();
        });
      };
      write();
      read();
      io.restart();
      io.run();
      return all;
    }
    int native() { return beast::get_lowest_layer(socket_).native_handle(); }
    void Cut() { beast::get_lowest_layer(socket_).close(); }

    websocket::response_type answer;
    bool closed = false;
    unsigned code = 0;

   private:
    websocket::stream<TlsClient> socket_;
  };
  std::unique_ptr<WebClient> Open(const std::string& target,
                                  const std::string& protocol = "v5.channel.k8s.io") {
    return std::make_unique<WebClient>(Connect(), target, protocol);
  }

  std::string AuditPath() const { return directory_ + "/audit/audit.log"; }

  SystemClock clock_;
  std::unique_ptr<access::AuditLog> audit_;
  std::chrono::milliseconds idle_limit_ = KubeletStreams::kIdle;
  std::string directory_;
  std::unique_ptr<test_support::TlsKeys> keys_;
  asio::ssl::context server_tls_{asio::ssl::context::tls_server};
  asio::ssl::context client_tls_{asio::ssl::context::tls_client};
  asio::io_context client_io_;
  FakePodView pods_;
  FakeServiceView services_;
  FakeExecRuntime runtime_;
  FakeImageStore images_;
  FakeNodeOperations node_{pods_, services_, runtime_, images_};
  asio::io_context io_{1};
  asio::ip::tcp::acceptor acceptor_{io_, {asio::ip::address_v4::loopback(), 0}};
  std::unique_ptr<KubeletStreams> streams_;
  std::thread thread_;
};

}  // namespace holdfast::agent::streams
