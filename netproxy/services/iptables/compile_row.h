// SPDX-License-Identifier: Apache-2.0
// One row -> its chains and its lines in the shared chains. Pure.
#pragma once

#include "netproxy/services/iptables/compile_base.h"

namespace holdfast::netproxy::iptables {

RowRules CompileRow(const model::ServicePortRow& row, const CompileContext& context);

}  // namespace holdfast::netproxy::iptables
