// SPDX-License-Identifier: Apache-2.0
// The rows that the kernel does not take, found by trying ever smaller parts of them in a table
// that is gone before it could ever see a packet.
#pragma once

#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/model/service_table.h"
#include "holdfast/sys/nfnl.h"

namespace holdfast::netproxy::nft {

// In the order of `rows`. `table_name` is that of the tables beside which they are tried.
std::vector<RefusedServicePort> FindRefused(sys::NfSocket& socket, const std::string& table_name,
                                            const model::ServiceSettings& settings,
                                            const std::vector<model::ServicePortRowPtr>& rows);

}  // namespace holdfast::netproxy::nft
