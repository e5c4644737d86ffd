// SPDX-License-Identifier: Apache-2.0
// Waiting for pods by watching them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "agent/cli/resource.h"
#include "agent/cli/session.h"

namespace holdfast::agent::cli {

using PodPredicate = std::function<bool(const k8s::io::api::core::v1::Pod&)>;

// Of `pods`, the one of that name, or of that name with its node's suffix; null when there is none.
const k8s::io::api::core::v1::Pod* FindRunning(const std::vector<k8s::io::api::core::v1::Pod>& pods,
                                               const PodName& name);

// Until a pod of that name satisfies `met`; it need not be there yet. A timeout of 0 is none.
int WaitUntil(Session& session, const PodName& name, std::chrono::nanoseconds timeout,
              const PodPredicate& met);

// Until all of these, by UID, are gone; they are watched together, and `timeout` is for all. Those
// that are still there then are told in the order given.
int WaitUntilGone(Session& session, const std::vector<k8s::io::api::core::v1::Pod>& pods,
                  std::chrono::nanoseconds timeout);

}  // namespace holdfast::agent::cli
