// SPDX-License-Identifier: Apache-2.0
// Waiting for pods by watching them.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/resource.h"
#include "agent/cli/session.h"

namespace holdfast::agent::cli {

using PodPredicate = std::function<bool(const k8s::io::api::core::v1::Pod&)>;

// All pods of the session's namespace (or of all with -A); empty when they cannot be listed.
std::vector<k8s::io::api::core::v1::Pod> ListAll(Session& session);

// The pod of that name, or of that name with its node's suffix; nullopt when there is none.
std::optional<k8s::io::api::core::v1::Pod> FindRunning(Session& session, const PodName& name);

// Until a pod of that name satisfies `met`; it need not be there yet. A timeout of 0 is none.
int WaitUntil(Session& session, const PodName& name, std::chrono::nanoseconds timeout,
              const PodPredicate& met);

// Until the pod with this UID is gone.
int WaitUntilGone(Session& session, const k8s::io::api::core::v1::Pod& pod,
                  std::chrono::nanoseconds timeout);

}  // namespace holdfast::agent::cli
