// SPDX-License-Identifier: Apache-2.0
// /healthz and its single checks, as a kubelet answers them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "agent/http/exchange.h"

namespace holdfast::agent::api {

// `path`: "/healthz" or one of a check below it. `trouble`: "", or why the agent is not well.
HttpAnswer HealthzAnswer(std::string_view path, bool verbose, const std::string& trouble);

}  // namespace holdfast::agent::api
