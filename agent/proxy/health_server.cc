// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/health_server.h"

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kProbeListenRetry{2000};
// A former agent that was killed just now still has its sockets: so often nothing is said.
constexpr int kQuietListens = 10;
constexpr std::chrono::milliseconds kQuietListenRetry{50};
constexpr size_t kLargestHeader = 8u << 10;
constexpr size_t kMostConnections = 128;  // of one listener
// When accept(2) lacks something (descriptors, memory), it would lack it at once again.
constexpr std::chrono::milliseconds kProbeAcceptPause{200};

tcp::endpoint AsioEndpoint(const model::Endpoint& endpoint) {
  if (!endpoint.ip.v6) {
    asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), endpoint.ip.bytes.data(), bytes.size());
    return {asio::ip::address_v4(bytes), endpoint.port};
  }
  asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), endpoint.ip.bytes.data(), bytes.size());
  return {asio::ip::address_v6(bytes), endpoint.port};
}

std::string Text(const model::Endpoint& endpoint) {
  const std::string ip = endpoint.ip.ToString();
  return StrCat(endpoint.ip.v6 ? StrCat("[", ip, "]") : ip, ":", endpoint.port);
}

// One request, one answer. Keeps itself alive until it is done (hence the shared_ptr).
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, HealthServer::Answer answer)
      : stream_(std::move(socket)), answer_(std::move(answer)) {
    parser_.header_limit(kLargestHeader);
    parser_.body_limit(0);
  }

  void Run() {
    stream_.expires_after(kPatience);
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->Reply();
                     });
  }

  // Makes room: what is under way ends with an error.
  void End() { stream_.close(); }

 private:
  void Reply() {
    const auto& request = parser_.get();
    response_.version(request.version());
    response_.keep_alive(false);
    if (request.method() == http::verb::get || request.method() == http::verb::head) {
      const std::string target(request.target());
      Fill(answer_(target.substr(0, target.find('?'))));
    } else {
      response_.result(http::status::method_not_allowed);
    }
    const bool head = request.method() == http::verb::head;
    response_.content_length(response_.body().size());
    if (head) response_.body().clear();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, size_t) { self->Close(); });
  }

  void Fill(netproxy::HttpReply reply) {
    response_.result(static_cast<unsigned>(reply.status));
    for (const auto& [name, value] : reply.headers) response_.set(name, value);
    response_.body() = std::move(reply.body);
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  const HealthServer::Answer answer_;
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

// One listening socket. Only the server's thread touches it.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  explicit Listener(asio::io_context& io) : acceptor_(io), pause_(io) {}

  beast::error_code Open(const tcp::endpoint& endpoint) {
    beast::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }
  void SetAnswer(HealthServer::Answer answer) { answer_ = std::move(answer); }

  void Accept() {
    acceptor_.async_accept(
        [self = shared_from_this()](beast::error_code error, tcp::socket socket) {
          if (error == asio::error::operation_aborted) return;
          if (!error) self->Serve(std::move(socket));
          if (IsLack(error)) return self->AcceptLater();
          self->Accept();
        });
  }
  void Close() {
    beast::error_code ignored;
    pause_.cancel();
    acceptor_.close(ignored);
  }

 private:
  static bool IsLack(beast::error_code error) {
    return error == asio::error::no_descriptors || error == asio::error::no_memory ||
           error == asio::error::no_buffer_space ||
           error == beast::errc::too_many_files_open_in_system;
  }

  void AcceptLater() {
    pause_.expires_after(kProbeAcceptPause);
    pause_.async_wait([self = shared_from_this()](beast::error_code error) {
      if (!error) self->Accept();
    });
  }

  void Serve(tcp::socket socket) {
    std::erase_if(open_, [](const auto& connection) { return connection.expired(); });
    if (open_.size() >= kMostConnections) {
      if (const auto oldest = open_.front().lock()) oldest->End();
      open_.pop_front();
    }
    auto connection = std::make_shared<Connection>(std::move(socket), answer_);
    open_.push_back(connection);
    connection->Run();
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  HealthServer::Answer answer_;
  std::deque<std::weak_ptr<Connection>> open_;  // the longest there first
};

}  // namespace

class HealthServer::Impl {
 public:
  ~Impl() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> Start() {
    ASSIGN_OR_RETURN(thread_, sys::StartThread("health-server", [this] { io_.run(); }));
    return {};
  }

  void Listen(Listeners wanted, std::function<void(const std::string&)> failed) {
    asio::post(io_, [this, wanted = std::move(wanted), failed = std::move(failed)]() mutable {
      for (auto it = listeners_.begin(); it != listeners_.end();) {
        if (wanted.contains(it->first)) {
          ++it;
        } else {
          it->second->Close();
          it = listeners_.erase(it);
        }
      }
      std::erase_if(waiting_, [&](const auto& w) { return !wanted.contains(w.first); });
      failed_ = std::move(failed);
      for (auto& [endpoint, answer] : wanted) Ensure(endpoint, std::move(answer));
    });
  }

 private:
  struct Waiting {
    HealthServer::Answer answer;
    int tries = 0;
  };

  // Somebody else may let the port go, or the node get the address.
  void RetryLater() {
    if (waiting_.empty() || retrying_) return;
    retrying_ = true;
    const bool quiet = std::any_of(waiting_.begin(), waiting_.end(), [](const auto& waiting) {
      return waiting.second.tries < kQuietListens;
    });
    retry_.expires_after(quiet ? kQuietListenRetry : kProbeListenRetry);
    retry_.async_wait([this](beast::error_code error) {
      retrying_ = false;
      if (error) return;
      const std::map<model::Endpoint, Waiting> waiting = waiting_;
      for (const auto& [endpoint, one] : waiting) Ensure(endpoint, one.answer);
    });
  }

  void Ensure(const model::Endpoint& endpoint, Answer answer) {
    const auto found = listeners_.find(endpoint);
    if (found != listeners_.end()) return found->second->SetAnswer(std::move(answer));
    auto listener = std::make_shared<Listener>(io_);
    if (const auto error = listener->Open(AsioEndpoint(endpoint))) {
      Waiting& waiting = waiting_[endpoint];
      waiting.answer = std::move(answer);
      if (++waiting.tries == kQuietListens && failed_) {
        failed_(StrCat("listen at ", Text(endpoint), ": ", error.message()));
      }
      return RetryLater();
    }
    waiting_.erase(endpoint);
    listener->SetAnswer(std::move(answer));
    listener->Accept();
    listeners_[endpoint] = std::move(listener);
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  std::map<model::Endpoint, std::shared_ptr<Listener>> listeners_;
  std::map<model::Endpoint, Waiting> waiting_;  // could not be listened at
  std::function<void(const std::string&)> failed_;
  asio::steady_timer retry_{io_};
  bool retrying_ = false;
  std::thread thread_;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthServer::~HealthServer() = default;

Result<std::unique_ptr<HealthServer>> HealthServer::Start() {
  auto impl = std::make_unique<Impl>();
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(impl)));
}

void HealthServer::Listen(Listeners listeners, std::function<void(const std::string& why)> failed) {
  impl_->Listen(std::move(listeners), std::move(failed));
}

}  // namespace holdfast::agent
