// SPDX-License-Identifier: Apache-2.0
// Edit: one change of an object's tree, and its written form in the recorded cases:
// {"set":["spec","containers",0,"name"],"value":"X"}, {"remove":[…]}, {"double":[…],"value":…} (the
// key once more, with that value). Value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "agent/kube/tree.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::kube {

// A member by its key, or an item by its index.
using Step = std::variant<std::string, size_t>;
using Path = std::vector<Step>;

struct Edit {
  enum class Verb : uint8_t { kSet, kRemove, kDouble };
  Verb verb = Verb::kSet;
  Path path;
  Node value;  // of kSet and kDouble
};

// Makes the maps and lists on the way that are missing; an index beyond the end appends. What is
// not there is removed already.
void Apply(const Edit& edit, Node* root);

Node ToNode(const Edit& edit);
Result<Edit> EditFrom(const Node& node);

// nullptr when nothing is there.
const Node* FindAt(const Node& root, const Path& path);

}  // namespace holdfast::agent::kube
