// SPDX-License-Identifier: Apache-2.0
// Port-forward over the messages of a WebSocket without SPDY within (v4.channel.k8s.io): one connection per
// port of the query, its data on channel 2n and its error on 2n+1. Source: control-plane 7.6.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/api/kubelet/streams/spdy_forward.h"
#include "agent/api/kubelet/streams/wire/protocols.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

std::shared_ptr<StreamConnection> StartChannelForward(StreamContext& context,
                                                      UpgradedConnection connection,
                                                      const ChannelProtocol& protocol,
                                                      PodForward target,
                                                      const std::vector<uint16_t>& ports);

}  // namespace holdfast::agent::streams
