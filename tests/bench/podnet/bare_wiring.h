// SPDX-License-Identifier: Apache-2.0
// The least that gives a pod addresses of both families: veth, links up, addresses, routes, each end in one
// call; no checks, no sysctls, no neighbours, no book.
// What PodNet is measured against. Source: netproxy/podnet/wiring.h. Any one thread.
#pragma once

#include <string>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::bench {

// `netns`: the pod's, borrowed. `name` of the node's end, unique on the node.
Result<void> WireBare(sys::Rtnl& node, int netns, const std::string& name);

}  // namespace holdfast::bench
