// SPDX-License-Identifier: Apache-2.0
// What rules remembered of clients with affinity, and taking some of it back.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/service_table.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/services/nft/layout.h"

namespace holdfast::netproxy::nft {

// Forgets the clients of `members` whose endpoint is none of `endpoints`: they choose again. How
// many there were. Maps that are not there hold nobody.
Result<size_t> PurgeAffinity(sys::NfSocket& socket, Family family, const std::string& table,
                             const SetId& members, const std::vector<model::Endpoint>& endpoints);

}  // namespace holdfast::netproxy::nft
