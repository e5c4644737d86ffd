// SPDX-License-Identifier: Apache-2.0
// JsonPath: kubectl's -o jsonpath=TEMPLATE. Pure.
//
// Understood: text outside braces; {.a.b}, {['a.b']}, {['a','b']}, {.items[0]}, {[-1]}, {[0,2]},
// {[1:3]}, {[::2]}, {[*]}, {.*}, {..name}, {[?(@.type=="Ready")]} with == != < <= > >= and
// existence, {"text\n"}, {range PATH}…{end}, {} for the object itself. Paths in one pair of braces
// go on from each other. A missing field gives nothing; an index that is not there is an error.
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

  // kInvalidArgument: an index out of bounds, or of what is no list.
  Result<std::string> Apply(const kube::Node& root) const;

  // What a template of one path chooses, each as it would be printed.
  Result<std::vector<std::string>> Values(const kube::Node& root) const;

  struct Step;
  struct Part;

 private:
  std::string text_;
  std::vector<std::shared_ptr<const Part>> parts_;  // shared: a copy is the same template
};

}  // namespace holdfast::agent::cli
