// SPDX-License-Identifier: Apache-2.0
// Port-forward over a SPDY/3.1 connection, bare or within a WebSocket: a pair of streams (error, data) per
// forwarded connection, which share a request id. Source: control-plane 7.6.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/api/kubelet/streams/pod_forward.h"
#include "agent/api/kubelet/streams/stream_context.h"

namespace holdfast::agent::streams {

std::shared_ptr<StreamConnection> StartSpdyForward(StreamContext& context,
                                                   const boost::asio::any_io_executor& executor,
                                                   std::shared_ptr<ByteCarrier> carrier,
                                                   PodForward target);

}  // namespace holdfast::agent::streams
