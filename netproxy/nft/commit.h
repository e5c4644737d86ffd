// SPDX-License-Identifier: Apache-2.0
// Sends a transaction to the kernel: all of it is done, or nothing.
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/transaction.h"

namespace holdfast::netproxy::nft {

// A refusal names the operation that the kernel did not like. An empty transaction is success.
Result<void> Commit(sys::NfSocket& socket, const Transaction& transaction);

}  // namespace holdfast::netproxy::nft
