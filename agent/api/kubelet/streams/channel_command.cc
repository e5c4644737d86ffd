// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/channel_command.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <deque>
#include <functional>

#include "agent/api/kubelet/streams/channel_messages.h"
#include "agent/api/kubelet/streams/command_status.h"
#include "agent/api/kubelet/streams/line_watch.h"
#include "agent/api/kubelet/streams/web_socket.h"

namespace holdfast::agent::streams {
namespace {

constexpr std::chrono::seconds kStatusLimit{10};  // for the client to take how it ended

class ChannelCommand final : public StreamConnection,
                             public StreamPeer,
                             public ChannelEvents,
                             public std::enable_shared_from_this<ChannelCommand> {
 public:
  ChannelCommand(StreamContext& context, UpgradedConnection connection, ChannelProtocol protocol,
                 CommandTarget target)
      : executor_(connection.stream.get_executor()),
        idle_limit_(context.idle_limit),
        protocol_(std::move(protocol)),
        session_(context, executor_, std::move(target), *this),
        socket_(MakeWebSocket(std::move(connection))),
        status_limit_(executor_),
        reader_(protocol_.base64, protocol_.closes_channels) {}

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

  // ---- StreamPeer ------------------------------------------------------------------------------

  void Write(StreamOutput output, std::string bytes) override {
    if (!session_.Wants(output)) return session_.Taken(output);
    const uint8_t channel = output == StreamOutput::kStdout ? kStdoutChannel : kStderrChannel;
    Queue(channel, bytes, [this, output] { session_.Taken(output); });
  }

  void ReadOn() override {
    paused_ = false;
    ReadNext();
  }

  // Status, then Close: a client takes either alone for something else.
  void Finish(const StreamEnd& end) override {
    const std::string status = CommandStatus(end, session_.doing(), protocol_.status_is_json);
    status_limit_.expires_after(kStatusLimit);
    status_limit_.async_wait([self = shared_from_this()](const auto& error) {
      if (!error) self->Drop();
    });
    if (status.empty()) return CloseWhenWritten(CloseCode::kNormal);
    Queue(kErrorChannel, status, [this] { CloseWhenWritten(CloseCode::kNormal); });
  }

  // ---- ChannelEvents ---------------------------------------------------------------------------

  void OnInput(std::string_view bytes) override {
    if (!session_.Feed(bytes)) paused_ = true;
  }
  void OnInputEnd() override { session_.EndInput(); }
  void OnSize(TerminalSize size) override { session_.Resize(size); }

 private:
  void Accepted() {
    watch_ = LineWatch::Start(executor_, idle_limit_, [self = weak_from_this()] {
      if (const auto command = self.lock()) command->Drop();
    });
    // Empty, so that the client knows that it has begun.
    Queue(session_.Wants(StreamOutput::kStdout)   ? kStdoutChannel
          : session_.Wants(StreamOutput::kStderr) ? kStderrChannel
                                                  : kErrorChannel,
          {}, nullptr);
    ReadNext();
    session_.Begin();
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

  void Received(std::string_view bytes, bool last) {
    watch_->Moved();
    if (!reader_.Read(bytes, last, *this)) {
      return CloseWhenWritten(CloseCode::kProtocolError);
    }
    ReadNext();
  }

  void Queue(uint8_t channel, std::string_view bytes, std::function<void()> sent) {
    if (over_) return;
    waiting_.push_back({ChannelMessage(channel, bytes, protocol_.base64), std::move(sent)});
    if (waiting_.size() == 1) WriteNext();
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

  // (What is being written goes out before the Close frame.)
  void CloseWhenWritten(CloseCode code) {
    socket_->Close(code);
    Over();
  }

  void Over() {
    over_ = true;
    session_.Close();
    if (watch_) watch_->Stop();
    status_limit_.cancel();
    if (!self_) return;
    // Not from within one of its own calls.
    boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
  }

  struct Message {
    std::string message;
    std::function<void()> sent;
  };

  const boost::asio::any_io_executor executor_;
  const std::chrono::milliseconds idle_limit_;
  const ChannelProtocol protocol_;
  CommandSession session_;
  const std::shared_ptr<WebSocket> socket_;
  std::shared_ptr<LineWatch> watch_;
  boost::asio::steady_timer status_limit_;
  ChannelReader reader_;
  std::deque<Message> waiting_;  // the first is being written
  bool reading_ = false;
  bool paused_ = false;
  bool over_ = false;
  std::shared_ptr<ChannelCommand> self_;  // until it is over
};

}  // namespace

std::shared_ptr<StreamConnection> StartChannelCommand(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      ChannelProtocol protocol,
                                                      CommandTarget target) {
  auto command = std::make_shared<ChannelCommand>(context, std::move(connection),
                                                  std::move(protocol), std::move(target));
  command->Start();
  return command;
}

}  // namespace holdfast::agent::streams
