// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {

Cidr Loopback(Family family) {
  const bool v6 = family == Family::kIp6;
  Cidr out;
  out.network.v6 = v6;
  out.network.bytes[v6 ? 15 : 0] = v6 ? 1 : 127;
  out.prefix = v6 ? 128 : 8;
  return out;
}

Rule MasqueradeMarked(uint32_t mark) {
  return {{MatchMark{mark}, SetMark{mark, false}, Masquerade{}},
          "marked above: with the address of the node"};
}

}  // namespace holdfast::netproxy::nft
