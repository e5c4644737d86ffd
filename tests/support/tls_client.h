// SPDX-License-Identifier: Apache-2.0
// TlsClient: one TLS connection to 127.0.0.1 that blocks, with a time limit of some seconds on every call. It believes
// every server.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <string>

namespace holdfast::test_support {

class TlsClient {
 public:
  struct Identity {
    std::string chain_file, key_file;  // "": none
  };

  explicit TlsClient(uint16_t port, const Identity& identity = {}) : stream_(io_, tls_) {
    namespace asio = boost::asio;
    if (!identity.chain_file.empty()) {
      // Asio's stream is made with the context as it is then.
      SSL_use_certificate_chain_file(stream_.native_handle(), identity.chain_file.c_str());
      SSL_use_PrivateKey_file(stream_.native_handle(), identity.key_file.c_str(), SSL_FILETYPE_PEM);
    }
    stream_.lowest_layer().connect({asio::ip::address_v4::loopback(), port}, error_);
    const timeval patience{10, 0};
    ::setsockopt(socket(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!error_) stream_.handshake(asio::ssl::stream_base::client, error_);
  }

  bool ok() const { return !error_; }
  int socket() { return stream_.lowest_layer().native_handle(); }
  SSL* ssl() { return stream_.native_handle(); }
  std::string error() const { return error_.message(); }

  void Send(const std::string& text) {
    if (!error_) boost::asio::write(stream_, boost::asio::buffer(text), error_);
  }
  // The next bytes; "" at the end or after an error.
  std::string ReadSome() {
    std::string piece(4096, 0);
    boost::system::error_code failed;
    const size_t size = stream_.read_some(boost::asio::buffer(piece), failed);
    if (failed) error_ = failed;
    piece.resize(size);
    return piece;
  }
  // Until `end` has come; less when the connection ends before.
  std::string ReadUntil(const std::string& end) {
    while (received_.find(end) == std::string::npos) {
      const std::string piece = ReadSome();
      if (piece.empty()) return std::exchange(received_, {});
      received_ += piece;
    }
    const size_t stop = received_.find(end) + end.size();
    const std::string out = received_.substr(0, stop);
    received_.erase(0, stop);
    return out;
  }
  std::string ReadAll() {
    while (true) {
      const std::string piece = ReadSome();
      if (piece.empty()) return std::exchange(received_, {});
      received_ += piece;
    }
  }
  // Head and body of an answer with a Content-Length.
  std::string ReadAnswer() {
    std::string head = ReadUntil("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    const size_t size = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
    while (received_.size() < size) {
      const std::string piece = ReadSome();
      if (piece.empty()) break;
      received_ += piece;
    }
    head += received_.substr(0, size);
    received_.erase(0, std::min(size, received_.size()));
    return head;
  }
  void Close() {
    boost::system::error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream_;
  boost::system::error_code error_;
  std::string received_;
};

}  // namespace holdfast::test_support
