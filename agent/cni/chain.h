// SPDX-License-Identifier: Apache-2.0
// A network's chain of plugins, as a whole: each verb of the specification, in its order, with the results that go from
// one plugin to the next. Thread-safe: no state. Each call blocks until the last plugin ended or the deadline did.
// Source: CNI specification 1.1, sections 3 and 4.
#pragma once

#include <string>
#include <vector>

#include "agent/cni/network_config.h"
#include "agent/cni/plugin.h"

namespace holdfast::agent::cni {

// What a plugin is asked about, and what it may know of the pod: `capabilities` has a value by the name of each that a
// plugin may declare; only those that it declares are shown to it (runtimeConfig).
struct Attached {
  PluginTarget target;
  Json capabilities = Json::object();
};

// An interface that a network has a right to have, for GarbageCollect().
struct ValidAttachment {
  std::string container_id;
  std::string interface;
};

// The last plugin's result, in the network's version.
Result<Json> Add(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                 Deadline deadline);
// In reverse. `result` is that of the ADD, null where it is not known. Idempotent: one that knows nothing of the interface
// has nothing to do.
Result<void> Del(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                 const Json& result, Deadline deadline);
// Nothing is asked where the network says disableCheck, or is older than the verb (0.4.0).
Result<void> Check(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                   const Json& result, Deadline deadline);
// Whether pods can be attached now; nothing is asked before 1.1.0.
Result<void> Status(const Plugins& plugins, const NetworkConfig& network, Deadline deadline);
// All but `valid` goes; nothing is asked where the network says disableGC or before 1.1.0. Every plugin is asked, the
// first error is returned.
Result<void> GarbageCollect(const Plugins& plugins, const NetworkConfig& network,
                            const std::vector<ValidAttachment>& valid, Deadline deadline);

// The highest version that the network is written in and each of its plugins speaks. kUnsupported where there is none.
Result<std::string> AgreeOnVersion(const Plugins& plugins, const NetworkConfig& network,
                                   Deadline deadline);

}  // namespace holdfast::agent::cni
