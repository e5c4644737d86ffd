// SPDX-License-Identifier: Apache-2.0
// PlainServer: a TCP (or TLS) server on loopback that answers each connection with the next of its
// scripted answers, byte by byte as the test wrote them, and keeps what it was asked.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tls_keys.h"

namespace holdfast::test_support {

class PlainServer {
 public:
  // "": nothing is answered and the connection stays open until the server ends. The last answer is
  // given again and again. `keys`: TLS.
  explicit PlainServer(std::deque<std::string> answers, const TlsKeys* keys = nullptr)
      : answers_(std::move(answers)),
        acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}),
        tls_(keys != nullptr) {
    if (keys != nullptr) {
      context_.use_certificate_chain_file(keys->Path("server.crt"));
      context_.use_private_key_file(keys->Path("server.key"), boost::asio::ssl::context::pem);
    }
    port_ = acceptor_.local_endpoint().port();
    thread_ = std::thread([this] { Serve(); });
  }
  ~PlainServer() {
    stopping_ = true;
    boost::system::error_code ignored;
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket last(io);
    (void)last.connect({boost::asio::ip::make_address("127.0.0.1"), port_}, ignored);
    thread_.join();
  }
  uint16_t port() const { return port_; }
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  void Serve() {
    std::vector<Socket> open;
    while (true) {
      Socket socket(io_);
      boost::system::error_code error;
      (void)acceptor_.accept(socket, error);
      if (error || stopping_) return;
      if (tls_) {
        boost::asio::ssl::stream<Socket&> stream(socket, context_);
        (void)stream.handshake(stream.server, error);
        if (!error) Answer(stream);
      } else {
        Answer(socket);
      }
      if (answers_.front().empty()) open.push_back(std::move(socket));
      if (answers_.size() > 1) answers_.pop_front();
    }
  }

  template <class Stream>
  void Answer(Stream& stream) {
    boost::system::error_code error;
    std::string head;
    // A TLS handshake is no request either: it is answered, too.
    while (!error && head.find("\r\n\r\n") == std::string::npos && !head.starts_with('\x16')) {
      std::array<char, 4096> piece;
      head.append(piece.data(), stream.read_some(boost::asio::buffer(piece), error));
    }
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(head);
    }
    (void)boost::asio::write(stream, boost::asio::buffer(answers_.front()), error);
  }

  std::deque<std::string> answers_;  // of the server's thread
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  const bool tls_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_server};
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;
  std::thread thread_;
};

}  // namespace holdfast::test_support
