// SPDX-License-Identifier: Apache-2.0
// exec and attach over the streams of a SPDY/3.1 connection (v4.channel.k8s.io down to channel.k8s.io): error,
// stdin, stdout, stderr, resize, opened by the client. Source: control-plane 7.4.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/api/kubelet/streams/command_session.h"
#include "agent/api/kubelet/streams/wire/protocols.h"

namespace holdfast::agent::streams {

// `carrier`: after the answer 101. Goes on until it ends, whoever keeps what is returned.
std::shared_ptr<StreamConnection> StartSpdyCommand(StreamContext& context,
                                                   const boost::asio::any_io_executor& executor,
                                                   std::shared_ptr<ByteCarrier> carrier,
                                                   SpdyProtocol protocol, CommandTarget target);

}  // namespace holdfast::agent::streams
