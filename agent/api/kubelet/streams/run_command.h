// SPDX-License-Identifier: Apache-2.0
// /run: a command whose output is the answer's body, as the kubelet has had it from the beginning.
#pragma once

#include <memory>

#include "agent/api/kubelet/streams/command_session.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

std::shared_ptr<StreamConnection> StartRun(StreamContext& context, UpgradedConnection connection,
                                           CommandTarget target);

}  // namespace holdfast::agent::streams
