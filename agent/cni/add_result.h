// SPDX-License-Identifier: Apache-2.0
// What a plugin's ADD gave: checked, in the version that is spoken with the chain, and the pod's addresses in it. Pure.
// Source: CNI specification 1.1, section 5; 0.4.0 for the older form (ips[].version).
#pragma once

#include <string>
#include <vector>

#include "agent/cni/json_text.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cni {

// In the form of `version`, whatever form the plugin chose. kInvalidArgument for what is no result.
Result<Json> ReadAddResult(const std::string& text, const std::string& version);

// The first address of each family that the result gives `interface` in the pod, `v6_first` or the other way round.
std::vector<std::string> PodAddresses(const Json& result, const std::string& interface,
                                      bool v6_first);

}  // namespace holdfast::agent::cni
