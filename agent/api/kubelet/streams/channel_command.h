// SPDX-License-Identifier: Apache-2.0
// exec and attach over the messages of a WebSocket (v5.channel.k8s.io down to channel.k8s.io and their base64
// forms). Source: control-plane 7.3.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/command_session.h"
#include "agent/api/kubelet/streams/wire/protocols.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

// Goes on until it ends, whoever keeps what is returned.
std::shared_ptr<StreamConnection> StartChannelCommand(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      const ChannelProtocol& protocol,
                                                      CommandTarget target);

}  // namespace holdfast::agent::streams
