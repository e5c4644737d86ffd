// SPDX-License-Identifier: Apache-2.0
// A Transaction as the bytes of one netlink batch, through libnftnl.
#pragma once

#include <string>

#include "netproxy/nft/transaction.h"

namespace holdfast::netproxy::nft {

// Messages carry the number of their operation, counted from 1, as nlmsg_seq.
std::string EncodeBatch(const Transaction& transaction);

}  // namespace holdfast::netproxy::nft
