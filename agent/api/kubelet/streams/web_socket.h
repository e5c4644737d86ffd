// SPDX-License-Identifier: Apache-2.0
// A WebSocket of a connection that left HTTP, and its messages as bytes.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/api/kubelet/streams/wire/web_socket.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

std::shared_ptr<WebSocket> MakeWebSocket(UpgradedConnection connection);

// Its messages as a stream of bytes, once it is accepted: their borders mean nothing.
std::shared_ptr<ByteCarrier> CarryMessages(std::shared_ptr<WebSocket> socket);

}  // namespace holdfast::agent::streams
