// SPDX-License-Identifier: Apache-2.0
// `version`: this program's and the agent's. Pure.
#pragma once

#include <string>

#include "agent/kube/tree.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

// kubectl's document: clientVersion and, where the agent has answered, serverVersion, each with
// major, minor and gitVersion; of the agent also apiVersion, nodeName and kernelVersion.
kube::Node VersionDocument(const v1::VersionResponse* server);

// The same in lines for a person.
std::string VersionText(const v1::VersionResponse* server);

}  // namespace holdfast::agent::cli
