// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/channel_forward.h"

#include "agent/api/kubelet/streams/channel_connection.h"
#include "agent/api/kubelet/streams/wire/channel_messages.h"

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

class ChannelForward final : public ChannelConnection {
 public:
  ChannelForward(StreamContext& context, UpgradedConnection connection,
                 const ChannelProtocol& protocol, PodForward target,
                 const std::vector<uint16_t>& ports)
      : ChannelConnection(std::move(connection), protocol, context.idle_limit),
        context_(context),
        target_(std::move(target)),
        reader_(protocol.base64),
        left_(ports.size()) {
    for (const uint16_t port : ports) {
      ports_.push_back(std::make_unique<ForwardedPort>(*this, ports_.size(), port));
    }
  }

  // ---- of its ports ----------------------------------------------------------------------------

  using ChannelConnection::Queue;
  using ChannelConnection::ReadOn;  // a port that is still full says so with its next message

  void Finish(const ForwardedPort& port, const StreamEnd& end) {
    const std::string text = end.error ? ForwardError(target_.pod, port.port, *end.error) : "";
    const bool last = --left_ == 0;
    Queue(port.error_channel(), text, [this, last] {
      if (last) Close(CloseCode::kNormal);
    });
  }

 private:
  // On both channels of each port its number, so that the client knows which is which.
  void Accepted() override {
    for (const auto& port : ports_) {
      const std::string number{static_cast<char>(port->port & 0xff),
                               static_cast<char>(port->port >> 8)};
      Queue(port->data_channel(), number, nullptr);
      Queue(port->error_channel(), number, nullptr);
      port->session = DescriptorSession::Make(executor(), context_.blocking, *port);
      port->session->Open(PortOpener(context_, target_, port->port));
    }
  }

  bool Received(std::string_view piece, bool last) override {
    const auto taken = reader_.Read(
        piece, last, [this](uint8_t channel, std::string_view bytes, bool) -> Result<void> {
          const size_t index = channel / 2;
          const bool data = channel % 2 == 0 && index < ports_.size() && !bytes.empty();
          if (data && !ports_[index]->session->Feed(bytes)) Pause();
          return {};
        });
    return taken.has_value();
  }

  void Ended() override {
    for (const auto& port : ports_) {
      if (port->session) port->session->Close();
    }
  }

  StreamContext& context_;
  const PodForward target_;
  MessageReader reader_;
  std::vector<std::unique_ptr<ForwardedPort>> ports_;
  size_t left_;  // ports whose connection has not ended
};

void ForwardedPort::Write(StreamOutput output, std::string bytes) {
  forward.Queue(data_channel(), bytes, [this, output] { session->Taken(output); });
}
void ForwardedPort::ReadOn() { forward.ReadOn(); }
void ForwardedPort::Finish(const StreamEnd& end) { forward.Finish(*this, end); }

}  // namespace

std::shared_ptr<StreamConnection> StartChannelForward(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      const ChannelProtocol& protocol,
                                                      PodForward target,
                                                      const std::vector<uint16_t>& ports) {
  auto forward = std::make_shared<ChannelForward>(context, std::move(connection), protocol,
                                                  std::move(target), ports);
  forward->Start();
  return forward;
}

}  // namespace holdfast::agent::streams
