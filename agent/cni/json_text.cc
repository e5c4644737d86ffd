// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/json_text.h"

#include <cstddef>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cni {
namespace {

constexpr size_t kDeepest = 64;

// Counted before it is parsed: what is deep is destroyed and printed by recursion.
bool IsDeeperThan(std::string_view text, size_t most) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '[')) {
      if (++depth > most) return true;
    } else if (!quoted && (c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> ParseObject(std::string_view text) {
  if (IsDeeperThan(text, kDeepest)) {
    return InvalidArgument(StrCat("JSON nested deeper than ", kDeepest));
  }
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) return InvalidArgument("no JSON object");
    return json;
  } catch (const Json::exception& error) {
    return InvalidArgument(error.what());
  }
}

std::string Print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::string();
  if (!found->is_string()) return InvalidArgument(StrCat(key, " is no string"));
  return found->get<std::string>();
}

}  // namespace holdfast::agent::cni
