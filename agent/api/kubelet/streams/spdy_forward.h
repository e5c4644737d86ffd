// SPDX-License-Identifier: Apache-2.0
// Port-forward over a SPDY/3.1 connection, bare or within a WebSocket: a pair of streams (error, data) per
// forwarded connection, which share a request id. Source: control-plane 7.6.
#pragma once

#include <memory>
#include <string>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/api/kubelet/streams/stream_context.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent::streams {

// The pod whose ports are asked for.
struct ForwardTarget {
  PodUid uid;
  std::string name;  // NAME_NAMESPACE, for errors
  bool host_network = false;
};

// Connects one port of the pod, as 127.0.0.1 or ::1 within it.
DescriptorSession::Opener DialOpener(NodeOperations& node, const ForwardTarget& target,
                                     uint16_t port);
// What the client is told when that fails.
std::string ForwardError(const ForwardTarget& target, uint16_t port, const Error& error);

std::shared_ptr<StreamConnection> StartSpdyForward(StreamContext& context,
                                                   const boost::asio::any_io_executor& executor,
                                                   std::shared_ptr<ByteCarrier> carrier,
                                                   ForwardTarget target);

}  // namespace holdfast::agent::streams
