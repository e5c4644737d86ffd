// SPDX-License-Identifier: Apache-2.0
// Writing the little JSON that the store writes. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::runtime {

// A JSON string literal with its quotes. Bytes that are no UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
std::string JsonArray(const std::vector<std::string>& strings);
std::string JsonObject(const std::map<std::string, std::string>& strings);
// {"a": {}, "b": {}}: how OCI writes sets.
std::string JsonSet(const std::vector<std::string>& keys);

}  // namespace holdfast::runtime
