// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <string>

#include "agent/api/kubelet/streams/wire/channel_messages.h"
#include "agent/api/kubelet/streams/wire/web_socket_over_internal.h"
#include "tests/fuzz/agent/streams/channel_seen.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using namespace agent::streams;

// What lies below a WebSocket: so many bytes at a time, then the end; what is written is kept.
class MemoryLayer {
 public:
  using executor_type = asio::io_context::executor_type;
  struct NoSocket {
    int native_handle() const { return -1; }
  };

  MemoryLayer(asio::io_context& context, std::string_view input, size_t step, std::string& output)
      : executor_(context.get_executor()), input_(input), step_(step), output_(&output) {}

  executor_type get_executor() noexcept { return executor_; }
  void expires_never() {}
  void close() { closed_ = true; }
  NoSocket socket() { return {}; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (closed_) input_ = {};
    const size_t size = asio::buffer_copy(buffers, asio::buffer(input_.substr(0, step_)));
    input_.remove_prefix(size);
    const beast::error_code end = asio::error::eof;
    Complete(std::forward<Handler>(handler), size == 0 ? end : beast::error_code(), size);
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    const size_t size = beast::buffer_bytes(buffers);
    const size_t before = output_->size();
    output_->resize(before + size);
    asio::buffer_copy(asio::buffer(output_->data() + before, size), buffers);
    Complete(std::forward<Handler>(handler), {}, size);
  }
  friend void beast_close_socket(MemoryLayer& layer) { layer.close(); }
  template <class Handler>
  friend void async_teardown(beast::role_type, MemoryLayer& layer, Handler&& handler) {
    asio::post(layer.executor_,
               beast::bind_front_handler(std::forward<Handler>(handler), beast::error_code()));
  }

 private:
  template <class Handler>
  void Complete(Handler&& handler, const beast::error_code& error, size_t size) {
    asio::post(executor_, beast::bind_front_handler(std::forward<Handler>(handler), error, size));
  }

  executor_type executor_;
  std::string_view input_;
  size_t step_;
  std::string* output_;
  bool closed_ = false;
};

using Socket = WebSocketOver<MemoryLayer>;

const Socket::Request& Handshake() {
  static const Socket::Request kRequest = [] {
    namespace http = beast::http;
    Socket::Request request(http::verb::get, "/exec/ns/pod/c", 11);
    request.set(http::field::host, "node");
    request.set(http::field::connection, "Upgrade");
    request.set(http::field::upgrade, "websocket");
    request.set(http::field::sec_websocket_version, "13");
    request.set(http::field::sec_websocket_key, "dGhlIHNhbXBsZSBub25jZQ==");
    return request;
  }();
  return kRequest;
}

struct Conversation {
  ChannelSeen seen;
  std::string output;  // after the handshake's answer
};

// As a ChannelConnection reads.
void ReadOn(const std::shared_ptr<Socket>& socket, ChannelReader& reader, ChannelSeen& seen) {
  socket->Read([socket, &reader, &seen](bool ok, std::string_view bytes, bool last) {
    if (!ok) return socket->Drop();
    if (!reader.Read(bytes, last, seen)) return socket->Close(CloseCode::kProtocolError);
    ReadOn(socket, reader, seen);
  });
}

Conversation Converse(std::string_view bytes, size_t step) {
  static asio::io_context context(1);  // one of each input's own would cost more than the rest
  Conversation said;
  ChannelReader reader(false, true);
  bool accepted = false;
  {
    const auto socket =
        std::make_shared<Socket>(MemoryLayer(context, bytes, step, said.output), Handshake());
    socket->Accept("v5.channel.k8s.io", [&, socket](bool ok) {
      accepted = ok;
      said.output.clear();
      if (ok) ReadOn(socket, reader, said.seen);
    });
  }
  context.restart();
  context.run();  // nothing is left to be waited for
  Require(accepted, "a handshake is taken", bytes);
  return said;
}

bool BeginsAlike(const std::string& a, const std::string& b) {
  const size_t both = std::min(a.size(), b.size());
  return a.compare(0, both, b, 0, both) == 0;
}

}  // namespace

void FuzzWebSocket(std::string_view input) {
  if (input.empty()) return;
  const size_t step = 1 + static_cast<unsigned char>(input[0]) % 16;
  const std::string_view bytes = input.substr(1);
  const Conversation cut = Converse(bytes, step);
  const Conversation whole = Converse(bytes, bytes.size() + 1);
  Require(whole.seen.input.size() <= bytes.size(), "no more than was sent", input);
  Require(cut.output == whole.output, "answers do not depend on how bytes come", input);
  // Of a piece that turns out wrong what came before it may have been taken.
  Require(BeginsAlike(cut.seen.input, whole.seen.input), "nor does what is said", input);
}

}  // namespace holdfast::fuzz
