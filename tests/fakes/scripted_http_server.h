// SPDX-License-Identifier: Apache-2.0
// ScriptedHttpServer: HTTP/2 over TLS on nghttp2's server side, played by a test: the script is called with each whole
// request, on the server's thread, and says what happens: answers, streams that stay open, GOAWAY, resets, silence, a
// cut. Everything may also be called later, from any thread. With Protocol::kHttp1 ALPN chooses http/1.1, of which it
// speaks as much as answers and chunked streams need.
#pragma once

#include <nghttp2/nghttp2.h>

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tls_keys.h"

namespace holdfast::test_support {

class ScriptedHttpServer {
 public:
  enum class Protocol { kHttp2, kHttp1 };
  using Headers = std::vector<std::pair<std::string, std::string>>;
  struct Asked {
    size_t connection = 0;  // counted from 0
    int32_t stream = 0;
    std::string method, path, body;
    std::map<std::string, std::string> headers;
  };
  using Script = std::function<void(ScriptedHttpServer&, const Asked&)>;

  ScriptedHttpServer(const TlsKeys& keys, Script script, Protocol protocol = Protocol::kHttp2)
      : script_(std::move(script)),
        protocol_(protocol),
        acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}) {
    context_.use_certificate_chain_file(keys.Path("server.crt"));
    context_.use_private_key_file(keys.Path("server.key"), boost::asio::ssl::context::pem);
    context_.load_verify_file(keys.Path("ca.crt"));
    context_.set_verify_mode(boost::asio::ssl::verify_peer);
    ::SSL_CTX_set_alpn_select_cb(context_.native_handle(), ChooseProtocol, &protocol_);
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ScriptedHttpServer() {
    io_.stop();
    thread_.join();
  }

  uint16_t port() const { return port_; }
  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  size_t connections() const {
    const std::lock_guard lock(mutex_);
    return opened_;
  }
  // Bytes of bodies that were given to the peer.
  size_t sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

  // --- the script's side ---

  void Answer(const Asked& to, int status, const Headers& headers, const std::string& body) {
    On(to.connection, [=](Peer& peer) {
      peer.Head(to.stream, status, headers);
      peer.Body(to.stream, body);
      peer.End(to.stream);
    });
  }
  void Begin(const Asked& to, int status, const Headers& headers) {
    On(to.connection, [=](Peer& peer) { peer.Head(to.stream, status, headers); });
  }
  void Write(const Asked& to, const std::string& body) {
    On(to.connection, [=](Peer& peer) { peer.Body(to.stream, body); });
  }
  void End(const Asked& to) {
    On(to.connection, [=](Peer& peer) { peer.End(to.stream); });
  }
  void Reset(const Asked& to, uint32_t code) {
    On(to.connection, [=](Peer& peer) {
      nghttp2_submit_rst_stream(peer.session, NGHTTP2_FLAG_NONE, to.stream, code);
      peer.Flush();
    });
  }
  // Streams above `last` are not processed.
  void GoAway(size_t connection, int32_t last, uint32_t code = NGHTTP2_NO_ERROR) {
    On(connection, [=](Peer& peer) {
      nghttp2_submit_goaway(peer.session, NGHTTP2_FLAG_NONE, last, code, nullptr, 0);
      peer.Flush();
    });
  }
  // The TCP connection ends, after what was written.
  void Cut(size_t connection) {
    On(connection, [](Peer& peer) { peer.CutSoon(); });
  }
  // Reads nothing and writes nothing any more, pings included, and keeps the connection.
  void Freeze(size_t connection) {
    On(connection, [](Peer& peer) { peer.frozen = true; });
  }

 private:
  using tcp = boost::asio::ip::tcp;
  using error_code = boost::system::error_code;

  static int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* size,
                            const unsigned char*, unsigned, void* protocol) {
    const bool h2 = *static_cast<Protocol*>(protocol) == Protocol::kHttp2;
    *out = reinterpret_cast<const unsigned char*>(h2 ? "h2" : "http/1.1");
    *size = h2 ? 2 : 8;
    return SSL_TLSEXT_ERR_OK;
  }

  struct Stream {
    Asked asked;
    std::string body;  // to be sent
    bool ended = false;
  };

  struct Peer : std::enable_shared_from_this<Peer> {
    Peer(ScriptedHttpServer& s, tcp::socket socket, size_t n)
        : server(s), stream(std::move(socket), s.context_), number(n) {}
    ~Peer() { nghttp2_session_del(session); }

    bool h2() const { return server.protocol_ == Protocol::kHttp2; }

    void Begin() {
      stream.async_handshake(boost::asio::ssl::stream_base::server,
                             [self = this->shared_from_this()](const error_code& failed) {
                               if (failed) return;
                               if (self->h2()) self->MakeSession();
                               self->Flush();
                               self->Read();
                             });
    }

    void MakeSession() {
      nghttp2_session_callbacks* callbacks = nullptr;
      nghttp2_session_callbacks_new(&callbacks);
      nghttp2_session_callbacks_set_on_header_callback(
          callbacks,
          [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
             const uint8_t* value, size_t value_size, uint8_t, void* user) {
            auto& headers = static_cast<Peer*>(user)->streams[frame->hd.stream_id].asked.headers;
            headers[std::string(reinterpret_cast<const char*>(name), name_size)] =
                std::string(reinterpret_cast<const char*>(value), value_size);
            return 0;
          });
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
          callbacks,
          [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size, void* user) {
            static_cast<Peer*>(user)->streams[id].asked.body.append(
                reinterpret_cast<const char*>(data), size);
            return 0;
          });
      nghttp2_session_callbacks_set_on_frame_recv_callback(
          callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
            const bool message =
                frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
            if (message && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
              static_cast<Peer*>(user)->whole.push_back(frame->hd.stream_id);
            }
            return 0;
          });
      nghttp2_session_callbacks_set_on_stream_close_callback(
          callbacks, [](nghttp2_session*, int32_t id, uint32_t, void* user) {
            static_cast<Peer*>(user)->streams.erase(id);
            return 0;
          });
      nghttp2_option* options = nullptr;
      nghttp2_option_new(&options);
      nghttp2_option_set_max_send_header_block_length(options, 1 << 20);
      nghttp2_session_server_new2(&session, callbacks, this, options);
      nghttp2_option_del(options);
      nghttp2_session_callbacks_del(callbacks);
      const nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100};
      nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &settings, 1);
    }

    void Read() {
      stream.async_read_some(boost::asio::buffer(input),
                             [self = this->shared_from_this()](const error_code& failed, size_t n) {
                               if (failed || self->frozen) return;
                               self->Take({self->input.data(), n});
                               self->Flush();
                               self->Read();
                             });
    }

    void Take(std::string_view bytes) {
      if (h2()) {
        nghttp2_session_mem_recv(session, reinterpret_cast<const uint8_t*>(bytes.data()),
                                 bytes.size());
        for (const int32_t id : std::exchange(whole, {})) {
          Asked& asked = streams[id].asked;
          asked.method = asked.headers[":method"];
          asked.path = asked.headers[":path"];
          Play(id);
        }
        return;
      }
      text.append(bytes);
      TakeHttp1();
    }

    void TakeHttp1() {
      const size_t end = text.find("\r\n\r\n");
      if (end == std::string::npos) return;
      Asked asked;
      const std::string first = text.substr(0, text.find("\r\n"));
      asked.method = first.substr(0, first.find(' '));
      asked.path =
          first.substr(asked.method.size() + 1, first.rfind(' ') - asked.method.size() - 1);
      for (size_t at = first.size() + 2; at < end;) {
        const std::string line = text.substr(at, text.find("\r\n", at) - at);
        std::string name = line.substr(0, line.find(':'));
        for (char& c : name) c = static_cast<char>(::tolower(c));
        asked.headers[name] = line.substr(std::min(line.size(), name.size() + 2));
        at += line.size() + 2;
      }
      const size_t length = std::strtoul(asked.headers["content-length"].c_str(), nullptr, 10);
      if (text.size() < end + 4 + length) return;
      asked.body = text.substr(end + 4, length);
      text.erase(0, end + 4 + length);
      streams[++last_http1].asked = std::move(asked);
      Play(last_http1);
    }

    void Play(int32_t id) {
      Asked& asked = streams[id].asked;
      asked.connection = number;
      asked.stream = id;
      const Asked copy = asked;
      {
        const std::lock_guard lock(server.mutex_);
        server.asked_.push_back(copy);
      }
      server.script_(server, copy);
    }

    void Head(int32_t id, int status, const Headers& headers) {
      if (!streams.contains(id)) return;
      const std::string code = std::to_string(status);
      if (!h2()) {
        output += "HTTP/1.1 " + code + " X\r\ntransfer-encoding: chunked\r\n";
        for (const auto& [name, value] : headers) output += name + ": " + value + "\r\n";
        output += "\r\n";
        return Flush();
      }
      std::vector<nghttp2_nv> list = {NameValue(kStatus, code)};
      for (const auto& [name, value] : headers) list.push_back(NameValue(name, value));
      nghttp2_data_provider body{};
      body.read_callback = ReadBody;
      nghttp2_submit_response(session, id, list.data(), list.size(), &body);
      Flush();
    }

    void Body(int32_t id, const std::string& bytes) {
      if (!streams.contains(id) || bytes.empty()) return;
      if (!h2()) {
        std::array<char, 32> size{};
        snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
        output += size.data() + bytes + "\r\n";
      } else {
        streams[id].body += bytes;
        nghttp2_session_resume_data(session, id);
      }
      Flush();
    }

    void End(int32_t id) {
      if (!streams.contains(id)) return;
      if (!h2()) {
        output += "0\r\n\r\n";
        streams.erase(id);
      } else {
        streams[id].ended = true;
        nghttp2_session_resume_data(session, id);
      }
      Flush();
    }

    static ssize_t ReadBody(nghttp2_session*, int32_t id, uint8_t* out, size_t size,
                            uint32_t* flags, nghttp2_data_source*, void* user) {
      auto& self = *static_cast<Peer*>(user);
      Stream& of = self.streams[id];
      const size_t count = std::min(size, of.body.size());
      std::memcpy(out, of.body.data(), count);
      of.body.erase(0, count);
      if (of.body.empty() && of.ended) *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (count == 0 && !of.ended) return NGHTTP2_ERR_DEFERRED;
      const std::lock_guard lock(self.server.mutex_);
      self.server.sent_ += count;
      return static_cast<ssize_t>(count);
    }

    void CutSoon() {
      cut = true;
      Flush();
    }

    void Flush() {
      if (writing || frozen) return;
      const uint8_t* bytes = nullptr;
      while (h2() && session != nullptr && output.size() < (1 << 20)) {
        const ssize_t size = nghttp2_session_mem_send(session, &bytes);
        if (size <= 0) break;
        output.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
      }
      if (output.empty()) {
        error_code ignored;
        if (cut) (void)stream.lowest_layer().close(ignored);
        return;
      }
      writing = true;
      in_flight = std::exchange(output, {});
      boost::asio::async_write(stream, boost::asio::buffer(in_flight),
                               [self = this->shared_from_this()](const error_code& failed, size_t) {
                                 self->writing = false;
                                 if (!failed) self->Flush();
                               });
    }

    static nghttp2_nv NameValue(const std::string& name, const std::string& value) {
      const auto bytes = [](const std::string& from) {
        return reinterpret_cast<uint8_t*>(const_cast<char*>(from.data()));
      };
      return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
    }

    static inline const std::string kStatus = ":status";
    ScriptedHttpServer& server;
    boost::asio::ssl::stream<tcp::socket> stream;
    const size_t number;
    nghttp2_session* session = nullptr;
    std::map<int32_t, Stream> streams;
    std::vector<int32_t> whole;  // requests, not yet played
    std::array<char, 16384> input{};
    std::string text, output, in_flight;
    int32_t last_http1 = 0;
    bool writing = false, frozen = false, cut = false;
  };

  void Accept() {
    acceptor_.async_accept([this](const error_code& failed, tcp::socket socket) {
      if (failed) return;
      auto peer = std::make_shared<Peer>(*this, std::move(socket), peers_.size());
      peers_.push_back(peer);
      {
        const std::lock_guard lock(mutex_);
        ++opened_;
      }
      peer->Begin();
      Accept();
    });
  }

  void On(size_t connection, std::function<void(Peer&)> work) {
    boost::asio::post(io_,
                      [this, connection, work = std::move(work)] { work(*peers_.at(connection)); });
  }

  const Script script_;
  Protocol protocol_;
  boost::asio::io_context io_{1};
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ =
      boost::asio::make_work_guard(io_);
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_server};
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  std::vector<std::shared_ptr<Peer>> peers_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Asked> asked_;
  size_t opened_ = 0, sent_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::test_support
