// SPDX-License-Identifier: Apache-2.0
// Reading JSON objects with named errors; thin over simdjson. Only inside .cc files.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::json {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

// `parser` owns what the result refers to.
inline Result<Object> ParseObject(simdjson::dom::parser& parser, std::string_view text,
                                  std::string_view what) {
  Object object;
  const auto error = parser.parse(simdjson::padded_string(text)).get(object);
  if (error) return InvalidArgument(StrCat(what, ": ", simdjson::error_message(error)));
  return object;
}

inline bool Has(const Object& object, std::string_view key) {
  Element element;
  return object[key].get(element) == simdjson::SUCCESS && !element.is_null();
}

// Absent and null are "": so do Go's readers. Another type is an error.
inline Result<std::string> String(const Object& object, std::string_view key) {
  if (!Has(object, key)) return std::string();
  std::string_view text;
  if (object[key].get(text) != simdjson::SUCCESS) {
    return InvalidArgument(StrCat("field ", key, ": not a string"));
  }
  return std::string(text);
}

inline Result<std::vector<std::string>> Strings(const Object& object, std::string_view key) {
  std::vector<std::string> strings;
  if (!Has(object, key)) return strings;
  Array array;
  if (object[key].get(array) != simdjson::SUCCESS) {
    return InvalidArgument(StrCat("field ", key, ": not a list"));
  }
  for (const Element element : array) {
    std::string_view text;
    if (element.get(text) != simdjson::SUCCESS) {
      return InvalidArgument(StrCat("field ", key, ": holds something that is not a string"));
    }
    strings.emplace_back(text);
  }
  return strings;
}

// The keys of an object, for {"80/tcp": {}}.
inline Result<std::vector<std::string>> Keys(const Object& object, std::string_view key) {
  std::vector<std::string> keys;
  if (!Has(object, key)) return keys;
  Object inner;
  if (object[key].get(inner) != simdjson::SUCCESS) {
    return InvalidArgument(StrCat("field ", key, ": not an object"));
  }
  for (const auto field : inner) keys.emplace_back(field.key);
  return keys;
}

}  // namespace holdfast::runtime::json
