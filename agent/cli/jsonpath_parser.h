// SPDX-License-Identifier: Apache-2.0
// A jsonpath template's text as steps. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "agent/cli/jsonpath.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// kInvalidArgument in kubectl's words.
Result<std::vector<std::vector<JsonPath::Step>>> ParseJsonPath(std::string_view text);

}  // namespace holdfast::agent::cli
