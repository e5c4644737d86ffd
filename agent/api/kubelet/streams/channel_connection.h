// SPDX-License-Identifier: Apache-2.0
// ChannelConnection: a WebSocket whose messages begin with the number of a channel, and who speaks on it: read one after
// the other unless he pauses, written in the order they were queued, watched for having gone. Keeps itself until it is
// over. On the connection's executor.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/api/kubelet/streams/line_watch.h"
#include "agent/api/kubelet/streams/stream_context.h"
#include "agent/api/kubelet/streams/web_socket.h"
#include "agent/api/kubelet/streams/wire/protocols.h"

namespace holdfast::agent::streams {

class ChannelConnection : public StreamConnection,
                          public std::enable_shared_from_this<ChannelConnection> {
 public:
  ChannelConnection(UpgradedConnection connection, ChannelProtocol protocol,
                    std::chrono::milliseconds idle_limit);
  void Start();
  void Drop() override;

 protected:
  // It is accepted: what is said first may be queued, then it is read.
  virtual void Accepted() = 0;
  // A piece of a message; false: the client does not keep to the protocol.
  virtual bool Received(std::string_view bytes, bool last) = 0;
  // Nothing is called any more.
  virtual void Ended() = 0;

  const boost::asio::any_io_executor& executor() const { return executor_; }
  const ChannelProtocol& protocol() const { return protocol_; }
  // Nothing is read until ReadOn().
  void Pause() { paused_ = true; }
  void ReadOn();
  // `sent`, unless null: when it is on its way.
  void Queue(uint8_t channel, std::string_view bytes, std::function<void()> sent);
  // What is being written goes out before the Close frame.
  void Close(CloseCode code);

 private:
  struct Message {
    std::string message;
    std::function<void()> sent;
  };
  void ReadNext();
  void WriteNext();
  void Written();
  void Over();

  const boost::asio::any_io_executor executor_;
  const ChannelProtocol protocol_;
  const std::chrono::milliseconds idle_limit_;
  const std::shared_ptr<WebSocket> socket_;
  std::shared_ptr<LineWatch> watch_;
  std::deque<Message> waiting_;  // the first is being written
  bool reading_ = false;
  bool paused_ = false;
  bool over_ = false;
  std::shared_ptr<ChannelConnection> self_;  // until it is over
};

}  // namespace holdfast::agent::streams
