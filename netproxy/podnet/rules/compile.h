// SPDX-License-Identifier: Apache-2.0
// What a ProxyTable means in nf_tables. Pure.
//
//   chain spoofed      filter prerouting raw   from a pod interface, but not from its address, or to
//                                              127.0.0.0/8: drop
//   chain loopback     filter input            127.0.0.0/8 from outside: drop (CVE-2020-8558); ip only
//   chain hostports                            dnat by @hostip_ports (address, protocol, port), then
//                                              by @host_ports (protocol, port)
//   chain prerouting   nat                     to an address of this node, not to loopback: hostports
//   chain output       nat                     the same for the node's own programs; to 127.0.0.0/8:
//                                              dnat by @hostip_ports alone
//   chain postrouting  nat                     @hairpin: a pod that meets itself by its hostPort;
//                                              from loopback to a pod: masquerade;
//                                              from a pod CIDR: outbound
//   chain outbound                             to pods of this node, the cluster, multicast: as it is;
//                                              elsewhere: masquerade
#pragma once

#include <string>
#include <vector>

#include "holdfast/model/proxy_table.h"
#include "netproxy/nft/transaction.h"

namespace holdfast::netproxy::nft {

// One table per family that the ProxyTable has a pod CIDR of.
std::vector<Table> Build(const model::ProxyTable& table, const std::string& table_name);

// The change from `previous` (null: nothing known) to `next`.
Transaction Compile(const model::ProxyTable& next, const model::ProxyTable* previous,
                    const std::string& table_name);

}  // namespace holdfast::netproxy::nft
