// SPDX-License-Identifier: Apache-2.0
// The words that name kinds of objects, as kubectl knows them, and objects. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

enum class Resource : uint8_t { kPods, kEvents, kNodes, kServices, kEndpoints, kImages };

// "pods", "pod" and "po", and so on.
std::optional<Resource> FindResource(const std::string& word);

struct ResourceWords {
  std::optional<Resource> resource;  // none: the words are names only
  std::vector<std::string> names;    // without "pod/"; "ns/a" is left to the name's own parser
};

// "pods a b", "pod/a pod/b", "a". kInvalidArgument: names of several kinds.
Result<ResourceWords> ReadResourceWords(std::vector<std::string> words);

// How a person names a pod: "web", "pod/web", "ns/web"; the name whole or a unique beginning.
struct PodName {
  std::string name_space;
  std::string name;
};
PodName ParsePodName(const std::string& text, const std::string& default_namespace);

}  // namespace holdfast::agent::cli
