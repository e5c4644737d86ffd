// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/paths.h"

#include <charconv>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::string_view kPrefix = "launch.";
constexpr std::string_view kRetiredPrefix = "retired.";
constexpr std::string_view kSuffix = ".sock";

bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

unsigned GenerationIn(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) return 0;
  if (name.size() <= prefix.size() + kSuffix.size()) return 0;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size() - kSuffix.size();
  unsigned generation = 0;
  const auto [rest, error] = std::from_chars(begin, end, generation);
  return error == std::errc() && rest == end ? generation : 0;
}

}  // namespace

std::string LauncherSocketName(unsigned generation) { return StrCat(kPrefix, generation, kSuffix); }

std::string RetiredSocketName(unsigned generation) {
  return StrCat(kRetiredPrefix, generation, kSuffix);
}

unsigned GenerationOfSocketName(std::string_view name) { return GenerationIn(name, kPrefix); }

unsigned GenerationOfRetired(std::string_view name) { return GenerationIn(name, kRetiredPrefix); }

bool IsValidId(std::string_view id) {
  if (id.empty() || id.size() > 128 || id[0] == '.') return false;
  for (char c : id) {
    if (!IsIdCharacter(c)) return false;
  }
  return true;
}

}  // namespace holdfast::runtime::keeper
