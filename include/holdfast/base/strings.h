// SPDX-License-Identifier: Apache-2.0
// StrCat: puts text and numbers together for messages (libstdc++ 12 has no std::format). Join: texts of a container.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast {
namespace strings_internal {

inline void Append(std::string& out, std::string_view part) { out.append(part); }
inline void Append(std::string& out, char part) { out.push_back(part); }
template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, char>)
void Append(std::string& out, T part) {
  out.append(std::to_string(part));
}

}  // namespace strings_internal

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::string out;
  (strings_internal::Append(out, parts), ...);
  return out;
}

// The texts in their order, the separator between each two.
std::string Join(const auto& texts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const std::string_view text : texts) {
    if (!first) out += separator;
    out += text;
    first = false;
  }
  return out;
}

}  // namespace holdfast
