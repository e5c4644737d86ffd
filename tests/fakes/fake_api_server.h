// SPDX-License-Identifier: Apache-2.0
// FakeApiServer: HTTPS with client certificates, and Leases with an API server's rules of
// resourceVersion: POST of one that is there and PUT of another version are conflicts. It can also
// behave badly. Listens in the network namespace of the thread that makes it. Thread-safe.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tls_keys.h"

namespace holdfast::test_support {

class FakeApiServer {
 public:
  enum class Manner {
    kHonest,
    kSilent,      // reads requests and never answers
    kGarbage,     // 200 with something that is no JSON
    kNoHttp,      // bytes that are no HTTP
    kEndless,     // a body that is too long
    kForbidden,   // 403 with a Status
    kLastAnswer,  // ends each connection after an answer, without having said so
  };
  struct Seen {
    std::string method;
    std::string path;
    std::string authorization;
    std::string body;
    size_t connection = 0;
  };

  explicit FakeApiServer(const TlsKeys& keys, const std::string& address = "127.0.0.1")
      : acceptor_(io_, {boost::asio::ip::make_address(address), 0}) {
    context_.use_certificate_chain_file(keys.Path("server.crt"));
    context_.use_private_key_file(keys.Path("server.key"), boost::asio::ssl::context::pem);
    context_.load_verify_file(keys.Path("ca.crt"));
    context_.set_verify_mode(boost::asio::ssl::verify_peer |
                             boost::asio::ssl::verify_fail_if_no_peer_cert);
    port_ = acceptor_.local_endpoint().port();
    acceptor_thread_ = std::thread([this] { Accept(); });
  }

  ~FakeApiServer() {
    stopping_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    acceptor_thread_.join();
    EndConnections();
    for (Session& session : sessions_) session.thread.join();
  }

  uint16_t port() const { return port_; }
  void Behave(Manner manner) { manner_ = manner; }

  // As a server that is restarted.
  void EndConnections() {
    const std::lock_guard lock(mutex_);
    for (Session& session : sessions_) {
      if (session.fd >= 0) ::shutdown(session.fd, SHUT_RDWR);
    }
  }

  std::vector<Seen> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  // By the path of the object.
  nlohmann::json Object(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(path);
    return found == objects_.end() ? nlohmann::json() : found->second;
  }
  void Delete(const std::string& path) {
    const std::lock_guard lock(mutex_);
    objects_.erase(path);
  }

 private:
  using tcp = boost::asio::ip::tcp;
  using Json = nlohmann::json;
  struct Session {
    int fd = -1;  // guarded by mutex_
    std::thread thread;
  };
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  struct Reply {
    unsigned status = 200;
    std::string body;
  };
  using Stream = boost::asio::ssl::stream<tcp::socket>;

  void Accept() {
    while (!stopping_) {
      boost::system::error_code error;
      tcp::socket socket(io_);
      acceptor_.accept(socket, error);
      if (error) return;
      const std::lock_guard lock(mutex_);
      Session& session = sessions_.emplace_back();
      session.fd = socket.native_handle();
      session.thread =
          std::thread([this, &session, number = sessions_.size(), s = std::move(socket)]() mutable {
            Serve(std::move(s), number);
            const std::lock_guard guard(mutex_);
            session.fd = -1;
          });
    }
  }

  void Serve(tcp::socket socket, size_t number) {
    namespace http = boost::beast::http;
    boost::system::error_code error;
    Stream stream(std::move(socket), context_);
    stream.handshake(boost::asio::ssl::stream_base::server, error);
    boost::beast::flat_buffer buffer;
    while (!error) {
      Request request;
      http::read(stream, buffer, request, error);
      if (error) return;
      {
        const std::lock_guard lock(mutex_);
        seen_.push_back({std::string(request.method_string()), std::string(request.target()),
                         std::string(request[http::field::authorization]), request.body(), number});
      }
      const Manner manner = manner_;
      if (manner == Manner::kSilent) continue;
      if (manner == Manner::kNoHttp) {
        boost::asio::write(stream, boost::asio::buffer(std::string("hello\r\n\r\n")), error);
        return;
      }
      Reply reply = Answer(request, manner);
      http::response<http::string_body> response(static_cast<http::status>(reply.status), 11);
      response.set(http::field::content_type, "application/json");
      response.body() = std::move(reply.body);
      response.prepare_payload();
      http::write(stream, response, error);
      if (manner == Manner::kLastAnswer) return;
    }
  }

  static Reply Status(unsigned code, const std::string& reason, const std::string& message) {
    return {code, Json{{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"status", "Failure"},
                       {"reason", reason},
                       {"message", message},
                       {"code", code}}
                      .dump()};
  }

  Reply Answer(const Request& request, Manner manner) {
    if (manner == Manner::kGarbage) return {200, "<html>"};
    if (manner == Manner::kEndless) return {200, std::string(2 << 20, ' ')};
    if (manner == Manner::kForbidden) {
      return Status(403, "Forbidden", "leases is forbidden: User \"client\" cannot");
    }
    const std::lock_guard lock(mutex_);
    const std::string path(request.target());
    if (request.method() == boost::beast::http::verb::get) {
      const auto found = objects_.find(path);
      if (found == objects_.end()) return Status(404, "NotFound", path + " not found");
      return {200, found->second.dump()};
    }
    Json object = Json::parse(request.body());
    Json& meta = object["metadata"];
    if (request.method() == boost::beast::http::verb::post) {
      const std::string name = path + "/" + meta["name"].get<std::string>();
      if (objects_.contains(name)) return Status(409, "AlreadyExists", name + " already exists");
      meta["resourceVersion"] = std::to_string(++version_);
      objects_[name] = object;
      return {201, object.dump()};
    }
    const auto found = objects_.find(path);
    if (found == objects_.end()) return Status(404, "NotFound", path + " not found");
    if (found->second["metadata"]["resourceVersion"] != meta["resourceVersion"]) {
      return Status(409, "Conflict", path + ": the object has been modified");
    }
    meta["resourceVersion"] = std::to_string(++version_);
    found->second = object;
    return {200, object.dump()};
  }

  boost::asio::io_context io_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_server};
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  std::atomic<Manner> manner_{Manner::kHonest};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::map<std::string, Json> objects_;
  uint64_t version_ = 100;
  std::vector<Seen> seen_;
  std::list<Session> sessions_;
  std::thread acceptor_thread_;
};

}  // namespace holdfast::test_support
