// SPDX-License-Identifier: Apache-2.0
// The watch of legacy xtables' tables (watch.h).
#pragma once

#include <memory>

#include "holdfast/base/result.h"
#include "netproxy/services/iptables/watch.h"

namespace holdfast::netproxy::iptables {

Result<std::shared_ptr<IptablesWatch>> OpenLegacyWatch();

}  // namespace holdfast::netproxy::iptables
