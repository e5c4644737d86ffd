// SPDX-License-Identifier: Apache-2.0
// ShortNames: what "nginx" stands for to people, as podman's registries.conf says. Immutable once
// read; thread-safe. Pods' names are not looked up here: to a kubelet a short name is docker.io's.
// Source: containers-registries.conf(5), containers-registries.conf.d(5).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

class ShortNames {
 public:
  // Every short name is docker.io's.
  ShortNames() = default;
  // `file`, then <file>.d/*.conf by their names, of which a later one overrides. A field that means
  // more than what short names stand for is refused: it would be believed to be in force.
  static Result<ShortNames> Read(const std::string& file);
  // One file's text, over what earlier ones said.
  Result<void> Add(std::string_view text);

  // What `text` may stand for, as full names, in the order in which they are to be asked for;
  // itself where it is no short name. kInvalidArgument when the file leaves it open.
  Result<std::vector<std::string>> Candidates(const std::string& text) const;

 private:
  std::string file_;
  std::optional<std::vector<std::string>> searched_;  // hosts; nothing: the files do not say
  bool enforcing_ = false;                            // of several hosts none is taken by guess
  std::map<std::string, std::string> aliases_;
};

}  // namespace holdfast::runtime
