// SPDX-License-Identifier: Apache-2.0
// CommandSession: exec or attach as a request asks for it, whatever carries it: from the request to an open
// session. On the connection's executor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/access/audit.h"
#include "agent/api/kubelet/streams/stream_context.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "agent/stream/descriptor_session.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent::streams {

// A request and the container that it was found to be about.
struct CommandTarget {
  StreamRequest request;
  ContainerId container;
  access::AuditEntry audit;
};

class CommandSession {
 public:
  // `peer` is borrowed until Close() or its Finish().
  CommandSession(StreamContext& context, const boost::asio::any_io_executor& executor,
                 CommandTarget target, StreamPeer& peer);

  // The client is there. A program on a terminal waits a moment for its size.
  void Begin();
  void Resize(TerminalSize size);
  bool Feed(std::string_view bytes) { return session_->Feed(bytes); }
  void EndInput() { session_->EndInput(); }
  void Taken(StreamOutput output) { session_->Taken(output); }
  void Close();

  // "executing command in container", for errors.
  const char* doing() const;
  bool Wants(StreamOutput output) const;

 private:
  void Open();

  StreamContext& context_;
  const CommandTarget target_;
  const std::shared_ptr<DescriptorSession> session_;
  const std::shared_ptr<boost::asio::steady_timer> size_wait_;
  bool begun_ = false;
  bool opened_ = false;
  std::optional<TerminalSize> size_;
};

}  // namespace holdfast::agent::streams
