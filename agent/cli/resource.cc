// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/resource.h"

#include <map>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

std::optional<Resource> FindResource(const std::string& word) {
  static const std::map<std::string, Resource> kNames = {{"po", Resource::kPods},
                                                         {"pod", Resource::kPods},
                                                         {"pods", Resource::kPods},
                                                         {"ev", Resource::kEvents},
                                                         {"event", Resource::kEvents},
                                                         {"events", Resource::kEvents},
                                                         {"no", Resource::kNodes},
                                                         {"node", Resource::kNodes},
                                                         {"nodes", Resource::kNodes},
                                                         {"image", Resource::kImages},
                                                         {"images", Resource::kImages},
                                                         {"svc", Resource::kServices},
                                                         {"service", Resource::kServices},
                                                         {"services", Resource::kServices},
                                                         {"ep", Resource::kEndpoints},
                                                         {"endpoints", Resource::kEndpoints},
                                                         {"endpointslice", Resource::kEndpoints},
                                                         {"endpointslices", Resource::kEndpoints}};
  const auto found = kNames.find(word);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

Result<ResourceWords> ReadResourceWords(std::vector<std::string> words) {
  ResourceWords read;
  if (!words.empty()) read.resource = FindResource(words.front());
  if (read.resource) words.erase(words.begin());
  for (std::string& word : words) {
    const size_t slash = word.find('/');
    const auto kind =
        slash == std::string::npos ? std::nullopt : FindResource(word.substr(0, slash));
    if (kind && !read.resource && read.names.empty()) read.resource = kind;
    if (kind && kind != read.resource) {
      return InvalidArgument(StrCat(word, ": names of one kind only in one command"));
    }
    if (kind) word.erase(0, slash + 1);
    read.names.push_back(std::move(word));
  }
  return read;
}

PodName ParsePodName(const std::string& text, const std::string& default_namespace) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {default_namespace, text};
  const std::string head = text.substr(0, slash);
  const std::string tail = text.substr(slash + 1);
  if (head == "pod" || head == "pods" || head == "po") return {default_namespace, tail};
  return {head, tail};
}

}  // namespace holdfast::agent::cli
