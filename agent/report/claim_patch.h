// SPDX-License-Identifier: Apache-2.0
// What a node says of a claim whose file system grows.
#pragma once

#include <string>

#include "agent/cluster/api.h"
#include "agent/kube/claim_resize.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Patches the claim's status; the resource version that it has then. Blocks until the server has answered, 30 s at most.
// Thread-safe; not on the API thread.
Result<std::string> PatchClaim(Api& api, const kube::Claim& claim, std::string patch);

}  // namespace holdfast::agent
