// SPDX-License-Identifier: Apache-2.0
// How exec and attach end, in the words of the error channel: a Status object (v4 and v5), or plain text
// on failure only (before). Pure. Source: control-plane 7.3; k8s.io/kubelet remotecommand.
#pragma once

#include <string>
#include <string_view>

#include "agent/stream/session.h"

namespace holdfast::agent::streams {

// `doing`: "executing command in container", "attaching to container"; for what went wrong in between.
std::string CommandStatus(const StreamEnd& end, std::string_view doing, bool json);

// "Internal error occurred: …" as CommandStatus has it.
std::string InternalErrorStatus(std::string_view cause, bool json);

}  // namespace holdfast::agent::streams
