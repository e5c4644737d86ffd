// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/spdy_command.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <map>
#include <set>

#include "agent/api/kubelet/streams/command_status.h"
#include "agent/api/kubelet/streams/spdy_connection.h"
#include "agent/api/kubelet/streams/wire/channel_messages.h"

namespace holdfast::agent::streams {
namespace {

constexpr std::chrono::seconds kStreamsLimit{30};  // for the client to open them all

class SpdyCommand final : public StreamConnection,
                          public StreamPeer,
                          public SpdyOwner,
                          public std::enable_shared_from_this<SpdyCommand> {
 public:
  SpdyCommand(StreamContext& context, const boost::asio::any_io_executor& executor,
              std::shared_ptr<ByteCarrier> carrier, SpdyProtocol protocol, CommandTarget target)
      : executor_(executor),
        idle_limit_(context.idle_limit),
        protocol_(std::move(protocol)),
        expected_(Expected(target.request, protocol_)),
        session_(context, executor, std::move(target), *this),
        connection_(std::make_shared<SpdyConnection>(std::move(carrier), *this)),
        streams_limit_(executor) {}

  void Start() {
    self_ = shared_from_this();
    connection_->Start(executor_, idle_limit_);
    streams_limit_.expires_after(kStreamsLimit);
    streams_limit_.async_wait([self = shared_from_this()](const auto& error) {
      if (!error) self->Drop();
    });
  }

  void Drop() override {
    connection_->Drop();
    Over();
  }

  // ---- StreamPeer ------------------------------------------------------------------------------

  void Write(StreamOutput output, std::string bytes) override {
    const auto stream = ids_.find(output == StreamOutput::kStdout ? "stdout" : "stderr");
    if (stream == ids_.end()) return session_.Taken(output);
    connection_->Send(stream->second, bytes, false, [this, output] { session_.Taken(output); });
  }

  void ReadOn() override { connection_->Resume(); }

  void Finish(const StreamEnd& end) override {
    const std::string status = CommandStatus(end, session_.doing(), protocol_.status_is_json);
    if (const auto error = ids_.find("error"); error != ids_.end()) {
      connection_->Send(error->second, status, true, nullptr);
    }
    for (const char* name : {"stdout", "stderr"}) {
      if (const auto stream = ids_.find(name); stream != ids_.end()) {
        connection_->Send(stream->second, {}, true, nullptr);
      }
    }
    finished_ = true;
    connection_->Resume();  // what a program left unread, or its client's end would not be seen
    connection_->End([self = shared_from_this()] { self->Over(); });
  }

  // ---- SpdyOwner -------------------------------------------------------------------------------

  std::optional<SpdyReset> Opened(uint32_t stream, const SpdyHeaders& headers) override {
    const auto type = headers.find("streamtype");
    if (type == headers.end()) return SpdyReset::kProtocolError;
    const bool wanted = expected_.contains(type->second) && !ids_.contains(type->second);
    if (!wanted) return SpdyReset::kRefusedStream;
    ids_[type->second] = stream;
    names_[stream] = type->second;
    if (ids_.size() == expected_.size()) {
      // Not before its own reply.
      boost::asio::post(executor_, [self = shared_from_this()] { self->Begin(); });
    }
    return std::nullopt;
  }

  void Received(uint32_t stream, std::string_view bytes, bool last) override {
    const auto name = names_.find(stream);
    if (name == names_.end() || finished_) return;
    if (name->second == "stdin") {
      if (!bytes.empty() && !session_.Feed(bytes)) connection_->Pause();
      if (last) session_.EndInput();
    } else if (name->second == "resize") {
      const auto size = sizes_.Read(bytes);
      if (!size) return Drop();
      if (*size) session_.Resize(**size);
    }
  }

  void Reset(uint32_t stream) override {
    const auto name = names_.find(stream);
    if (name != names_.end() && name->second == "stdin") session_.EndInput();
  }

  void Lost() override { Over(); }

 private:
  static std::set<std::string> Expected(const StreamRequest& request,
                                        const SpdyProtocol& protocol) {
    std::set<std::string> names{"error"};
    if (request.input) names.insert("stdin");
    if (request.output) names.insert("stdout");
    if (request.error) names.insert("stderr");
    if (request.tty && protocol.has_resize) names.insert("resize");
    return names;
  }

  void Begin() {
    streams_limit_.cancel();
    if (self_) session_.Begin();
  }

  void Over() {
    streams_limit_.cancel();
    session_.Close();
    if (!self_) return;
    // Not from within one of its own calls.
    boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
  }

  const boost::asio::any_io_executor executor_;
  const std::chrono::milliseconds idle_limit_;
  const SpdyProtocol protocol_;
  const std::set<std::string> expected_;
  CommandSession session_;
  const std::shared_ptr<SpdyConnection> connection_;
  boost::asio::steady_timer streams_limit_;
  std::map<std::string, uint32_t> ids_;
  std::map<uint32_t, std::string> names_;
  SizeReader sizes_;
  bool finished_ = false;
  std::shared_ptr<SpdyCommand> self_;  // until it is over
};

}  // namespace

std::shared_ptr<StreamConnection> StartSpdyCommand(StreamContext& context,
                                                   const boost::asio::any_io_executor& executor,
                                                   std::shared_ptr<ByteCarrier> carrier,
                                                   SpdyProtocol protocol, CommandTarget target) {
  auto command = std::make_shared<SpdyCommand>(context, executor, std::move(carrier),
                                               std::move(protocol), std::move(target));
  command->Start();
  return command;
}

}  // namespace holdfast::agent::streams
