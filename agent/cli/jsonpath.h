// SPDX-License-Identifier: Apache-2.0
// JsonPath: kubectl's -o jsonpath=TEMPLATE. Pure.
//
// Understood is what kubectl's parser takes, with its oddities: text outside braces; {.a.b},
// {.a['b','c']}, {[0]}, {[-1]}, {[0,2]}, {[1:3]}, {[::2]}, {[*]}, {.*}, {..name},
// {[?(@.type=="Ready")]} with == != < <= > >= and existence, {"text\n"}, {range PATH}…{end}, {} and
// {@} for the object itself. What stands in one pair of braces goes on from what stands before it:
// {.a "x"} is x. A missing field gives nothing; an index that is not there is an error. Beyond
// kubectl, {['a.b']} also finds a key with that dot.
// Source: k8s.io/client-go/util/jsonpath of Kubernetes 1.36; tests/kube/printing compares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/tree.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

class JsonPath {
 public:
  // kInvalidArgument in kubectl's words.
  static Result<JsonPath> Parse(std::string_view template_text);

  // kInvalidArgument: an index out of bounds, or of what is no list.
  Result<std::string> Apply(const kube::Node& root) const;

  // What each part of the template chooses: as often as it is gone through.
  Result<std::vector<std::vector<kube::Node>>> Values(const kube::Node& root) const;

  struct Step;

 private:
  // Of a text without braces, or of a pair of braces.
  std::vector<std::vector<Step>> actions_;
};

struct JsonPath::Step {
  enum class Kind : uint8_t {
    kText,
    kLiteral,
    kField,
    kAll,
    kRecursive,
    kItems,
    kUnion,
    kFilter,
    kRange,
    kEnd,
    kUnknownWord,
  };
  // Of a list: those from `begin` to `end`, which counts from the end where it is negative.
  struct Slice {
    int64_t begin = 0;
    std::optional<int64_t> end = {};
    std::optional<int64_t> stride = {};
    bool one = false;  // `end` follows from `begin`
  };

  Kind kind = Kind::kField;
  kube::Node literal = {};  // kText, kLiteral
  std::string name = {};    // kField, kUnknownWord; kFilter: the operator, "" is existence
  Slice slice = {};         // kItems
  // kUnion: each of them; kFilter: left and right; kField: 'a.b' as a path
  std::vector<std::vector<Step>> lists = {};
};

}  // namespace holdfast::agent::cli
