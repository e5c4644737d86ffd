// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection that left HTTP as they are.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

// What was read beyond the request comes first.
std::shared_ptr<ByteCarrier> CarryTls(UpgradedConnection connection);

}  // namespace holdfast::agent::streams
