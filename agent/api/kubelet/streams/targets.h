// SPDX-License-Identifier: Apache-2.0
// From a request to the container or pod that it is about, or to a kubelet's refusal. Pure but for the view.
// What the audit log is to say is there but for who asks.
#pragma once

#include <expected>

#include "agent/api/kubelet/streams/command_session.h"
#include "agent/api/kubelet/streams/pod_forward.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "agent/view/pod_view.h"

namespace holdfast::agent::streams {

std::expected<CommandTarget, Refusal> FindCommandTarget(const PodView& pods, StreamRequest request);
std::expected<PodForward, Refusal> FindForwardTarget(const PodView& pods,
                                                     const StreamRequest& request);

}  // namespace holdfast::agent::streams
