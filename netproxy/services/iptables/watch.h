// SPDX-License-Identifier: Apache-2.0
// Tells that somebody else touched the chains of this back end. Bound to the network namespace of
// the thread that opened it. The watch's and the back end's thread, one of each.
//
// Where the rules are nf_tables', the kernel notifies. Legacy xtables do not: there the size of
// each table and where its hooks begin are compared three times a second, which costs microseconds.
// What leaves both as they were, and what falls into a change of our own, the periodic comparison
// finds.
#pragma once

#include <memory>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/services/iptables/host.h"

namespace holdfast::netproxy::iptables {

class IptablesWatch : public RulesWatch, public RulesWitness {};

Result<std::shared_ptr<IptablesWatch>> OpenWatch(const Programs& programs);

}  // namespace holdfast::netproxy::iptables
