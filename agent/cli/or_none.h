// SPDX-License-Identifier: Apache-2.0
// How a table or a description shows that something is not there, as kubectl does.
#pragma once

#include <string>
#include <utility>

namespace holdfast::agent::cli {

inline std::string OrNone(std::string text) { return text.empty() ? "<none>" : std::move(text); }

}  // namespace holdfast::agent::cli
