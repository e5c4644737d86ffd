// SPDX-License-Identifier: Apache-2.0
// PortForwarder: listens on this machine and carries each connection to a port of a pod, as a call of its own.
// One thread, the caller's, does all of it; of each direction one piece is under way, so that who does not read
// makes the other wait.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/forward_ports.h"
#include "agent/cli/session.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

// Until SIGINT (kOk), or until the pod or the agent is gone. Tells what it listens on and each connection.
int ForwardPorts(Session& session, const k8s::io::api::core::v1::Pod& pod,
                 const std::vector<ListenAddress>& addresses,
                 const std::vector<ForwardedPort>& ports);

}  // namespace holdfast::agent::cli
