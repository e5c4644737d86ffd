// SPDX-License-Identifier: Apache-2.0
// The words that name kinds of objects, as kubectl knows them, and objects. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

enum class Resource : uint8_t {
  kPods,
  kServices,
  kEndpoints,  // the EndpointSlices of a Service, under the Service's name
  kEndpointSlices,
  kEvents,
  kNodes,
  kConfigMaps,
  kSecrets,  // without their values: SecretSummary
  kImages,   // no Kubernetes objects
};

// "pods": in headings and messages. "pod": in front of a name. "Pod": the object's kind.
std::string_view Plural(Resource resource);
std::string_view Singular(Resource resource);
std::string_view KindOf(Resource resource);

// "pods", "pod" and "po", and so on.
std::optional<Resource> FindResource(std::string_view word);

// kInvalidArgument in kubectl's words, and what there is.
Error UnknownResource(std::string_view word);

struct ObjectName {
  Resource resource = Resource::kPods;
  std::string name;  // may be "ns/a": that is left to ParsePodName
  bool operator==(const ObjectName&) const = default;
};

struct ResourceWords {
  std::vector<Resource> resources;  // every kind that is meant, in order, once
  std::vector<ObjectName> objects;  // none: `resources` alone were named
};

// "pods a b", "pods,services", "pods,services a" (a of each kind), "all", "pod/a svc/b". Words of
// which the first names no kind are the names of `bare` objects, where that is given, but for the
// words of Kubernetes for kinds that are not run here: they never are a name.
// kInvalidArgument: nothing named, an unknown kind, or both ways of naming at once.
Result<ResourceWords> ReadResourceWords(const std::vector<std::string>& words,
                                        std::optional<Resource> bare = std::nullopt);

// How a person names an object: "web", "ns/web", a pod also "pod/web".
struct PodName {
  std::string name_space;
  std::string name;
};
// kInvalidArgument for another kind's "svc/web".
Result<PodName> ReadPodName(const std::string& text, const std::string& default_namespace);
PodName ParsePodName(const std::string& text, const std::string& default_namespace);

}  // namespace holdfast::agent::cli
