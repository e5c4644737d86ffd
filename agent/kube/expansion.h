// SPDX-License-Identifier: Apache-2.0
// $(NAME) references in command, args, env and subPathExpr. Pure.
#pragma once

#include <map>
#include <string>

namespace holdfast::agent::kube {

// "$(NAME)" becomes the variable's value, "$$" a dollar sign; a reference to an unknown name and an
// unclosed one stay as they are. `unknown`, if given, is set when a reference was not found.
std::string Expand(const std::string& text, const std::map<std::string, std::string>& variables,
                   bool* unknown = nullptr);

}  // namespace holdfast::agent::kube
