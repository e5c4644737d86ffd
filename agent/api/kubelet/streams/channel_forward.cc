// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/channel_forward.h"

#include <boost/asio/post.hpp>
#include <deque>
#include <functional>

#include "agent/api/kubelet/streams/channel_messages.h"
#include "agent/api/kubelet/streams/line_watch.h"
#include "agent/api/kubelet/streams/web_socket.h"

namespace holdfast::agent::streams {
namespace {

class ChannelForward;

// One port's connection.
struct ForwardedPort final : public StreamPeer {
  ForwardedPort(ChannelForward& of, size_t place, uint16_t number)
      : forward(of), index(place), port(number) {}
  void Write(StreamOutput, std::string bytes) override;
  void ReadOn() override;
  void Finish(const StreamEnd& end) override;
  uint8_t data_channel() const { return static_cast<uint8_t>(2 * index); }
  uint8_t error_channel() const { return static_cast<uint8_t>(2 * index + 1); }

  ChannelForward& forward;
  const size_t index;
  const uint16_t port;
  std::shared_ptr<DescriptorSession> session;
};

class ChannelForward final : public StreamConnection,
                             public std::enable_shared_from_this<ChannelForward> {
 public:
  ChannelForward(StreamContext& context, UpgradedConnection connection, ChannelProtocol protocol,
                 ForwardTarget target, const std::vector<uint16_t>& ports)
      : context_(context),
        executor_(connection.stream.get_executor()),
        protocol_(std::move(protocol)),
        target_(std::move(target)),
        socket_(MakeWebSocket(std::move(connection))),
        reader_(protocol_.base64) {
    for (const uint16_t port : ports) {
      ports_.push_back(std::make_unique<ForwardedPort>(*this, ports_.size(), port));
    }
    left_ = ports_.size();
  }

  void Start() {
    self_ = shared_from_this();
    socket_->Accept(protocol_.name, [self = shared_from_this()](bool ok) {
      if (!ok || self->over_) return self->Drop();
      self->Accepted();
    });
  }

  void Drop() override {
    socket_->Drop();
    Over();
  }

  // ---- of its ports ----------------------------------------------------------------------------

  void Send(uint8_t channel, std::string_view bytes, std::function<void()> sent) {
    if (over_) return;
    waiting_.push_back({ChannelMessage(channel, bytes, protocol_.base64), std::move(sent)});
    if (waiting_.size() == 1) WriteNext();
  }

  void HasRoom() {
    paused_ = false;  // a port that is still full says so with its next message
    ReadNext();
  }

  void Finish(const ForwardedPort& port, const StreamEnd& end) {
    const std::string text = end.error ? ForwardError(target_, port.port, *end.error) : "";
    const bool last = --left_ == 0;
    Send(port.error_channel(), text, [this, last] {
      if (!last) return;
      socket_->Close(CloseCode::kNormal);
      Over();
    });
  }

 private:
  // On both channels of each port its number, so that the client knows which is which.
  void Accepted() {
    watch_ = LineWatch::Start(executor_, context_.idle_limit, [self = weak_from_this()] {
      if (const auto forward = self.lock()) forward->Drop();
    });
    for (const auto& port : ports_) {
      const std::string number{static_cast<char>(port->port & 0xff),
                               static_cast<char>(port->port >> 8)};
      Send(port->data_channel(), number, nullptr);
      Send(port->error_channel(), number, nullptr);
      port->session = DescriptorSession::Make(executor_, context_.blocking, *port);
      port->session->Open(DialOpener(context_.node, target_, port->port));
    }
    ReadNext();
  }

  void ReadNext() {
    if (reading_ || over_) return;
    if (paused_) return watch_->NotReading(socket_->socket());
    reading_ = true;
    watch_->Reading();
    socket_->Read([self = shared_from_this()](bool ok, std::string_view bytes, bool last) {
      self->reading_ = false;
      if (self->over_) return;
      if (!ok) return self->Drop();
      self->Received(bytes, last);
    });
  }

  void Received(std::string_view piece, bool last) {
    watch_->Moved();
    const auto taken = reader_.Read(
        piece, last, [this](uint8_t channel, std::string_view bytes, bool) -> Result<void> {
          const size_t index = channel / 2;
          const bool data = channel % 2 == 0 && index < ports_.size() && !bytes.empty();
          if (data && !ports_[index]->session->Feed(bytes)) paused_ = true;
          return {};
        });
    if (!taken) {
      socket_->Close(CloseCode::kProtocolError);
      return Over();
    }
    ReadNext();
  }

  void WriteNext() {
    socket_->Write(std::move(waiting_.front().message), protocol_.base64,
                   [self = shared_from_this()](bool ok) {
                     if (self->over_) return;
                     if (!ok) return self->Drop();
                     self->Written();
                   });
  }

  void Written() {
    watch_->Moved();
    const auto sent = std::move(waiting_.front().sent);
    waiting_.pop_front();
    if (!waiting_.empty()) WriteNext();
    if (sent) sent();
  }

  void Over() {
    over_ = true;
    if (watch_) watch_->Stop();
    for (const auto& port : ports_) {
      if (port->session) port->session->Close();
    }
    if (!self_) return;
    // Not from within one of its own calls.
    boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
  }

  struct Message {
    std::string message;
    std::function<void()> sent;
  };

  StreamContext& context_;
  const boost::asio::any_io_executor executor_;
  const ChannelProtocol protocol_;
  const ForwardTarget target_;
  const std::shared_ptr<WebSocket> socket_;
  MessageReader reader_;
  std::shared_ptr<LineWatch> watch_;
  std::vector<std::unique_ptr<ForwardedPort>> ports_;
  size_t left_ = 0;              // ports whose connection has not ended
  std::deque<Message> waiting_;  // the first is being written
  bool reading_ = false;
  bool paused_ = false;
  bool over_ = false;
  std::shared_ptr<ChannelForward> self_;  // until it is over
};

void ForwardedPort::Write(StreamOutput output, std::string bytes) {
  forward.Send(data_channel(), bytes, [this, output] { session->Taken(output); });
}
void ForwardedPort::ReadOn() { forward.HasRoom(); }
void ForwardedPort::Finish(const StreamEnd& end) { forward.Finish(*this, end); }

}  // namespace

std::shared_ptr<StreamConnection> StartChannelForward(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      ChannelProtocol protocol,
                                                      ForwardTarget target,
                                                      std::vector<uint16_t> ports) {
  auto forward = std::make_shared<ChannelForward>(context, std::move(connection),
                                                  std::move(protocol), std::move(target), ports);
  forward->Start();
  return forward;
}

}  // namespace holdfast::agent::streams
