// SPDX-License-Identifier: Apache-2.0
// What the readers of TOML files share. Pure; errors begin with the line.
#pragma once

#include <string>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "holdfast/base/result.h"

namespace holdfast::runtime::toml_read {

Error At(const toml::node& node, const std::string& message);

// A string, or a list of them.
Result<std::vector<std::string>> Strings(const toml::node& node, const std::string& key);

Result<toml::table> Parse(std::string_view text);

}  // namespace holdfast::runtime::toml_read
