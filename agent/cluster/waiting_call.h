// SPDX-License-Identifier: Apache-2.0
// An API server asked by somebody who waits for the answer. Thread-safe; never on the API thread.
#pragma once

#include <atomic>

#include "agent/cluster/api.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Blocks until the call has its answer or its limit is over. `cancelled`, unless null: the caller gives up; kUnavailable.
Result<ApiReply> SendAndWait(Api& api, ApiCall call, const std::atomic<bool>* cancelled = nullptr);

}  // namespace holdfast::agent
