// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/given_config.h"

#include <algorithm>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

// A user's or group's name or number.
bool IsAccount(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return c > ' ' && c != ':' && c != 0x7F; });
}

bool IsUser(std::string_view text) {
  const size_t colon = text.find(':');
  return IsAccount(text.substr(0, colon)) &&
         (colon == std::string_view::npos || IsAccount(text.substr(colon + 1)));
}

}  // namespace

Result<void> CheckGivenConfig(const ImageConfig& config) {
  for (const std::string& entry : config.env) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals != 0) continue;
    return InvalidArgument(StrCat("environment entry \"", entry, "\": must be NAME=VALUE"));
  }
  if (!config.user.empty() && !IsUser(config.user)) {
    return InvalidArgument(StrCat("user \"", config.user,
                                  "\": must be a name or a number, or such a "
                                  "USER:GROUP"));
  }
  if (!config.working_dir.empty() && !config.working_dir.starts_with('/')) {
    return InvalidArgument(
        StrCat("working directory \"", config.working_dir, "\": must be an absolute path"));
  }
  return {};
}

}  // namespace holdfast::runtime
