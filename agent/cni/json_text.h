// SPDX-License-Identifier: Apache-2.0
// JSON that plugins and configuration files say: with a limit on its depth. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::cni {

using Json = nlohmann::json;

// kInvalidArgument for what is no JSON object, or nested deeper than 64.
Result<Json> ParseObject(std::string_view text);

// Bytes that are no UTF-8 are replaced.
std::string Print(const Json& json);

// A text, "" where it is absent; kInvalidArgument when it is something else.
Result<std::string> TextOf(const Json& object, const char* key);

}  // namespace holdfast::agent::cni
