// SPDX-License-Identifier: Apache-2.0
// Diagnostic: one thing that is wrong with a manifest, and where. Value type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

struct Diagnostic {
  std::string file;
  Position at;
  std::string path;  // "spec.containers[0].imagee"; empty when the text itself is wrong
  std::string message;

  // "web.yaml:7:5: spec.containers[0].imagee: unknown field (did you mean "image"?)"; one line,
  // whatever characters the file's name and its text have.
  std::string ToString() const;
  bool operator==(const Diagnostic&) const = default;
};

// One line each.
std::string ToString(const std::vector<Diagnostic>& diagnostics);

// The text as it may be shown: at most `limit` bytes, control characters replaced, in quotes.
std::string Quoted(std::string_view text, size_t limit = 100);

}  // namespace holdfast::agent::kube
