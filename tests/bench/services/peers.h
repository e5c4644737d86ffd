// SPDX-License-Identifier: Apache-2.0
// The tools that other node agents call for Services, given the same table: iptables-restore with
// kube-proxy's chains, ipvsadm -R. Each in a network namespace of its own. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/services/report.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {

// `kind`: "nft" or "legacy". Loads and changes up to so many services, packets up to so many.
struct XtablesPeer {
  std::string kind;
  size_t loads_up_to = 0;
  size_t packets_up_to = 0;
};
// Adds to the rows of the nf_tables back end for that shape.
void MeasureXtables(const XtablesPeer& peer, const Shape& shape, Report& report);

void MeasureIpvsadm(const Shape& shape, Report& report);

// A network namespace of its own for this thread; nothing is left of the one before.
void EnterFreshNetwork();

}  // namespace holdfast::bench
