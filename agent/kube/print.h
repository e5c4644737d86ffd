// SPDX-License-Identifier: Apache-2.0
// From trees to text. Pure; thread-safe.
#pragma once

#include <string>

#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

// One line, members in the tree's order.
std::string CompactJson(const Node& tree);

// One line, keys sorted.
std::string SortedCompactJson(const Node& tree);

// As kubectl prints: keys sorted, four spaces, a newline at the end.
std::string SortedJson(const Node& tree);

// As kubectl prints: keys sorted (runs of digits by their value), two spaces, lists not indented.
std::string SortedYaml(const Node& tree);

}  // namespace holdfast::agent::kube
