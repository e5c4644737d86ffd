// SPDX-License-Identifier: Apache-2.0
// JsonPath: kubectl's -o jsonpath=TEMPLATE. Pure.
//
// Understood: text outside braces; {.a.b}, {['a.b']}, {.items[0]}, {[-1]}, {[1:3]}, {[*]}, {.*},
// {..name}, {[?(@.type=="Ready")]} with == != < <= > >= and existence, {"text\n"},
// {range PATH}…{end}, several paths in one pair of braces. A missing field gives nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/tree.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

class JsonPath {
 public:
  // kInvalidArgument naming the place.
  static Result<JsonPath> Parse(std::string_view template_text);

  std::string Apply(const kube::Node& root) const;

  struct Step;
  struct Part;

 private:
  std::vector<std::shared_ptr<const Part>> parts_;  // shared: a copy is the same template
};

}  // namespace holdfast::agent::cli
