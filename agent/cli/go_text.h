// SPDX-License-Identifier: Apache-2.0
// Values as Go's fmt prints them, which is what kubectl shows. Pure.
#pragma once

#include <string>

#include "agent/kube/tree.h"

namespace holdfast::agent::cli {

// "<nil>", "1.5e+21", "map[a:1 b:[2 3]]".
std::string GoText(const kube::Node& node);

// "map[string]interface {}", "int64", …
std::string_view GoType(const kube::Node& node);

}  // namespace holdfast::agent::cli
