// SPDX-License-Identifier: Apache-2.0
// LabelSelector: Kubernetes' selector language: "a=b,c!=d,e in (f,g),h notin (i),j,!k". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::kube {

class LabelSelector {
 public:
  LabelSelector() = default;  // matches everything

  // kInvalidArgument naming the place.
  static Result<LabelSelector> Parse(std::string_view text);

  // `labels`: any map from string to string.
  template <class Map>
  bool Matches(const Map& labels) const {
    for (const Requirement& requirement : requirements_) {
      const auto found = labels.find(requirement.key);
      if (!requirement.Accepts(found == labels.end() ? nullptr : &found->second)) return false;
    }
    return true;
  }

 private:
  enum class Operator : uint8_t { kIn, kNotIn, kExists, kDoesNotExist };
  struct Requirement {
    std::string key;
    Operator op = Operator::kExists;
    std::vector<std::string> values;
    bool Accepts(const std::string* value) const;
  };
  class Parser;
  std::vector<Requirement> requirements_;
};

}  // namespace holdfast::agent::kube
