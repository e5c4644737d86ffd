// SPDX-License-Identifier: Apache-2.0
// --field-selector and --sort-by, applied to objects that the agent has sent. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/cli/object.h"
#include "agent/cli/resource.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// "status.phase!=Running,metadata.name=web": fields that the API server selects by, all of which
// must hold.
class FieldSelector {
 public:
  // kInvalidArgument for what is no selector.
  static Result<FieldSelector> Parse(const std::string& text);

  // kInvalidArgument for a field that Kubernetes does not select such objects by.
  Result<void> CheckFor(Resource resource) const;
  bool Matches(const Object& object) const;

 private:
  struct Requirement {
    std::string field;
    std::string value;
    bool equal = true;
  };
  std::vector<Requirement> requirements_;
};

// By the value at `path` (relaxed, as custom columns): numbers and quantities by size, texts as such,
// what has none first. kInvalidArgument: no path, no object has it, or its values have no order.
Result<void> SortBy(const std::string& path, std::vector<Object>& objects);

}  // namespace holdfast::agent::cli
