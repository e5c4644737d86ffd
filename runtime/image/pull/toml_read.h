// SPDX-License-Identifier: Apache-2.0
// What the readers of TOML files share. Pure; errors begin with the line.
#pragma once

#include <string>
#include <vector>

// What toml++ asserts of a key's beginning it refuses, with its line, a few lines below: without the assertion, which
// would end this program over a slip in a file.
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "holdfast/base/result.h"

namespace holdfast::runtime::toml_read {

Error At(const toml::node& node, const std::string& message);

// A string, or a list of them.
Result<std::vector<std::string>> Strings(const toml::node& node, const std::string& key);

Result<toml::table> Parse(std::string_view text);

}  // namespace holdfast::runtime::toml_read
