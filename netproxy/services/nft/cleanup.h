// SPDX-License-Identifier: Apache-2.0
// Takes away what kube-proxy's nftables mode left on the node. Only when it is asked for: the
// tables are not ours.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::netproxy::nft {

// The tables that were removed, as "ip kube-proxy".
Result<std::vector<std::string>> RemoveKubeProxyTables();

}  // namespace holdfast::netproxy::nft
