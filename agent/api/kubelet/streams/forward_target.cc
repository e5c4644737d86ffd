// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/spdy_forward.h"
#include "agent/stream/dial.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {

DescriptorSession::Opener DialOpener(NodeOperations& node, const ForwardTarget& target,
                                     uint16_t port) {
  return [&node, target, port]() -> Result<SessionEnds> {
    NsFd inside;  // none: the node's own
    if (!target.host_network) {
      ASSIGN_OR_RETURN(inside, node.NetworkNamespace(target.uid));
    }
    ASSIGN_OR_RETURN(UniqueFd socket, DialLoopback(inside.get(), port));
    return EndsOfSocket(std::move(socket));
  };
}

std::string ForwardError(const ForwardTarget& target, uint16_t port, const Error& error) {
  return StrCat("error forwarding port ", port, " to pod ", target.name, ", uid ", target.uid.value,
                ": ", error.message());
}

}  // namespace holdfast::agent::streams
