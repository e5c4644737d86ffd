// SPDX-License-Identifier: Apache-2.0
// What sessions of streams are opened with, whichever API they come by. The openers block, and run where
// DescriptorSession has its blocking jobs run; `node` and `log` are borrowed until they did.
#pragma once

#include <cstdint>
#include <string>

#include "agent/access/audit.h"
#include "agent/operate/node_operations.h"
#include "agent/stream/descriptor_session.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

// A program in a running container.
DescriptorSession::Opener ExecOpener(NodeOperations& node, ContainerId container, ExecSpec spec);

// A running container's own streams.
DescriptorSession::Opener AttachOpener(NodeOperations& node, ContainerId container,
                                       AttachSpec spec);

// The pod whose ports are asked for.
struct ForwardTarget {
  PodUid uid;
  std::string name;  // NAME_NAMESPACE, for errors
  bool host_network = false;
};
ForwardTarget ForwardTargetOf(const corev1::Pod& pod);

// Connects one port of the pod, as 127.0.0.1 or ::1 within it.
DescriptorSession::Opener DialOpener(NodeOperations& node, ForwardTarget target, uint16_t port);
// What the client is told when that fails.
std::string ForwardError(const ForwardTarget& target, uint16_t port, const Error& error);

// `opener` between two lines of the audit log: one before anything is done, one when the session is over or could
// not begin.
DescriptorSession::Opener Audited(access::AuditLog& log, access::AuditEntry what,
                                  DescriptorSession::Opener opener);

}  // namespace holdfast::agent
