// SPDX-License-Identifier: Apache-2.0
// The table's judgement of one Service in the API's words. Pure.
#pragma once

#include <optional>

#include "agent/proxy/service_view.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::api {

// Each frontend for the kind of source that `from` is (frontends of its family only), or for all.
void FillExplanation(const ExplainedService& explained, const std::optional<IpAddress>& from,
                     v1::ExplainServiceResponse& out);

}  // namespace holdfast::agent::api
