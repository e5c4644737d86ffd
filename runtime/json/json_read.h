// SPDX-License-Identifier: Apache-2.0
// Reading JSON objects with named errors; thin over simdjson. Only inside .cc files.
//
// As Go's encoding/json, by which everybody else reads the same text: names of fields are taken in any case, and one
// that is absent or null is as good as empty. One of another kind is kInvalidArgument: passed over, it would be a
// condition, a limit or a refusal less. So is an object in which a name is there twice, of which the last counts for Go
// and the first would here: what a scanner has seen and what runs would not be the same.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ascii.h"
#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::json {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

// kInvalidArgument where two names are one, for fields with names of their own. Not for maps, whose keys are data.
inline Result<void> CheckNames(const Object& object) {
  std::set<std::string> seen;
  for (const auto field : object) {
    if (field.key.contains("\u017f") || field.key.contains("\u212a")) {
      return InvalidArgument(
          StrCat("field ", field.key, ": has a letter that is an s or a k to Go"));
    }
    if (!seen.insert(ToLower(field.key)).second) {
      return InvalidArgument(StrCat("field ", field.key, ": is there twice"));
    }
  }
  return {};
}

// `parser` owns what the result refers to.
inline Result<Object> ParseObject(simdjson::dom::parser& parser, std::string_view text,
                                  std::string_view what) {
  Object object;
  const auto error = parser.parse(simdjson::padded_string(text)).get(object);
  if (error) return InvalidArgument(StrCat(what, ": ", simdjson::error_message(error)));
  RETURN_IF_ERROR(WithContext(CheckNames(object), what));
  return object;
}

inline std::optional<Element> Find(const Object& object, std::string_view key) {
  Element element;
  const auto error = object.at_key_case_insensitive(key).get(element);
  if (error != simdjson::SUCCESS || element.is_null()) return std::nullopt;
  return element;
}

inline bool Has(const Object& object, std::string_view key) {
  return Find(object, key).has_value();
}

// T: what simdjson has for the kind, which `kind` names in an error: "a string".
template <class T>
Result<std::optional<T>> Field(const Object& object, std::string_view key, std::string_view kind) {
  const auto element = Find(object, key);
  if (!element) return std::nullopt;
  T value;
  if (element->get(value) != simdjson::SUCCESS) {
    return InvalidArgument(StrCat("field ", key, ": not ", kind));
  }
  return value;
}

inline Result<std::string> String(const Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const auto text, Field<std::string_view>(object, key, "a string"));
  return std::string(text.value_or(""));
}

inline Result<uint64_t> Number(const Object& object, std::string_view key, uint64_t absent) {
  ASSIGN_OR_RETURN(const auto number, Field<uint64_t>(object, key, "a whole number from 0"));
  return number.value_or(absent);
}

inline Result<std::optional<Object>> Inner(const Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const auto inner, Field<Object>(object, key, "an object"));
  if (inner) RETURN_IF_ERROR(WithContext(CheckNames(*inner), StrCat("field ", key)));
  return inner;
}

// One whose keys are data.
inline Result<std::optional<Object>> Map(const Object& object, std::string_view key) {
  return Field<Object>(object, key, "an object");
}

// T of the list's elements.
template <class T>
Result<std::vector<T>> List(const Object& object, std::string_view key, std::string_view kind) {
  ASSIGN_OR_RETURN(const auto array, Field<Array>(object, key, kind));
  std::vector<T> values;
  if (!array) return values;
  for (const Element element : *array) {
    T value;
    if (element.get(value) != simdjson::SUCCESS) {
      return InvalidArgument(StrCat("field ", key, ": not ", kind));
    }
    values.push_back(value);
  }
  return values;
}

inline Result<std::vector<Object>> Objects(const Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(auto objects, List<Object>(object, key, "a list of objects"));
  for (const Object& one : objects) {
    RETURN_IF_ERROR(WithContext(CheckNames(one), StrCat("field ", key)));
  }
  return objects;
}

inline Result<std::vector<std::string>> Strings(const Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const auto views, List<std::string_view>(object, key, "a list of strings"));
  return std::vector<std::string>(views.begin(), views.end());
}

// The keys of an object, for {"80/tcp": {}}.
inline Result<std::vector<std::string>> Keys(const Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const auto map, Map(object, key));
  std::vector<std::string> keys;
  if (!map) return keys;
  for (const auto field : *map) keys.emplace_back(field.key);
  return keys;
}

}  // namespace holdfast::runtime::json
