// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/channel_command.h"

#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "agent/api/kubelet/streams/channel_connection.h"
#include "agent/api/kubelet/streams/command_status.h"
#include "agent/api/kubelet/streams/wire/channel_messages.h"

namespace holdfast::agent::streams {
namespace {

constexpr std::chrono::seconds kStatusLimit{10};  // for the client to take how it ended

class ChannelCommand final : public ChannelConnection, public StreamPeer, public ChannelEvents {
 public:
  ChannelCommand(StreamContext& context, UpgradedConnection connection,
                 const ChannelProtocol& protocol, CommandTarget target)
      : ChannelConnection(std::move(connection), protocol, context.idle_limit),
        session_(context, executor(), std::move(target), *this),
        status_limit_(executor()),
        reader_(protocol.base64, protocol.closes_channels) {}

  // ---- StreamPeer ------------------------------------------------------------------------------

  void Write(StreamOutput output, std::string bytes) override {
    if (!session_.Wants(output)) return session_.Taken(output);
    const uint8_t channel = output == StreamOutput::kStdout ? kStdoutChannel : kStderrChannel;
    Queue(channel, bytes, [this, output] { session_.Taken(output); });
  }

  void ReadOn() override { ChannelConnection::ReadOn(); }

  // Status, then Close: a client takes either alone for something else.
  void Finish(const StreamEnd& end) override {
    const std::string status = CommandStatus(end, session_.doing(), protocol().status_is_json);
    status_limit_.expires_after(kStatusLimit);
    status_limit_.async_wait([self = shared_from_this()](const auto& error) {
      if (!error) self->Drop();
    });
    if (status.empty()) return Close(CloseCode::kNormal);
    Queue(kErrorChannel, status, [this] { Close(CloseCode::kNormal); });
  }

  // ---- ChannelEvents ---------------------------------------------------------------------------

  void OnInput(std::string_view bytes) override {
    if (!session_.Feed(bytes)) Pause();
  }
  void OnInputEnd() override { session_.EndInput(); }
  void OnSize(TerminalSize size) override { session_.Resize(size); }

 private:
  void Accepted() override {
    // Empty, so that the client knows that it has begun.
    Queue(session_.Wants(StreamOutput::kStdout)   ? kStdoutChannel
          : session_.Wants(StreamOutput::kStderr) ? kStderrChannel
                                                  : kErrorChannel,
          {}, nullptr);
    session_.Begin();
  }

  bool Received(std::string_view bytes, bool last) override {
    return reader_.Read(bytes, last, *this).has_value();
  }

  void Ended() override {
    session_.Close();
    status_limit_.cancel();
  }

  CommandSession session_;
  boost::asio::steady_timer status_limit_;
  ChannelReader reader_;
};

}  // namespace

std::shared_ptr<StreamConnection> StartChannelCommand(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      const ChannelProtocol& protocol,
                                                      CommandTarget target) {
  auto command =
      std::make_shared<ChannelCommand>(context, std::move(connection), protocol, std::move(target));
  command->Start();
  return command;
}

}  // namespace holdfast::agent::streams
