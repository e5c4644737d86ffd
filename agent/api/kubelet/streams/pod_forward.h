// SPDX-License-Identifier: Apache-2.0
// A port-forward that was found to be about a pod, whatever carries it.
#pragma once

#include <string>

#include "agent/access/audit.h"
#include "agent/api/kubelet/streams/stream_context.h"
#include "agent/operate/session_openers.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {

struct PodForward {
  ForwardTarget pod;
  access::AuditEntry audit;  // of each of its connections
};

// One connection to a port.
inline DescriptorSession::Opener PortOpener(StreamContext& context, const PodForward& forward,
                                            uint16_t port) {
  access::AuditEntry what = forward.audit;
  what.detail = StrCat(port);
  return Audited(context.audit, std::move(what), DialOpener(context.node, forward.pod, port));
}

}  // namespace holdfast::agent::streams
