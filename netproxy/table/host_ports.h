// SPDX-License-Identifier: Apache-2.0
// hostPorts of pods as rows of the ProxyTable. Pure.
//
// "" as host IP means every address of both families, "0.0.0.0" and "::" every address of one.
// Two pods clash where one packet could be meant for both: same protocol and port, and the same
// address or one of them every address.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/pod_network.h"
#include "holdfast/model/proxy_table.h"

namespace holdfast::netproxy {

// What HostPortRow::protocol is for the interface's protocol.
model::L4Protocol ToL4(HostPort::Protocol protocol);

// One row per port and family that the pod has an address of, in order. kInvalidArgument for port 0
// or a host IP that is none; kUnsupported for ::1: a packet of the node's loopback cannot leave it in
// IPv6, whatever it is translated to.
Result<std::vector<model::HostPortRow>> HostPortRows(const std::vector<HostPort>& ports,
                                                     const std::vector<IpAddress>& pod_addresses);

// Whether one is of 127.0.0.0/8, which takes more than a translation (podnet/wiring.h).
bool HasLoopback(const std::vector<model::HostPortRow>& rows);

bool Clash(const model::HostPortRow& a, const model::HostPortRow& b);

// "tcp 192.0.2.2:8080", for messages.
std::string ToString(const model::HostPortRow& row);

}  // namespace holdfast::netproxy
