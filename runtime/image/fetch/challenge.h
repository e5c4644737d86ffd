// SPDX-License-Identifier: Apache-2.0
// WWW-Authenticate as registries write it. Pure; in the helper, since it is a stranger's text.
// Source: RFC 9110, 11.6.1; the distribution project's "token authentication".
#pragma once

#include <string_view>
#include <vector>

#include "runtime/image/wire/wire.h"

namespace holdfast::runtime::fetch {

inline constexpr size_t kMaxChallenges = 8;

// The challenges of one header value; what cannot be read ends the list.
std::vector<Challenge> ParseChallenges(std::string_view header);

}  // namespace holdfast::runtime::fetch
