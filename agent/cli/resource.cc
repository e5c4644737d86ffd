// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/resource.h"

#include <algorithm>
#include <array>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

struct ResourceNames {
  std::string_view plural;
  std::string_view singular;
  std::string_view kind;
};

// In the order of the enumeration.
constexpr std::array<ResourceNames, 9> kNames = {
    {{"pods", "pod", "Pod"},
     {"services", "service", "Service"},
     {"endpoints", "endpointslice.discovery.k8s.io", "EndpointSlice"},
     {"endpointslices", "endpointslice.discovery.k8s.io", "EndpointSlice"},
     {"events", "event", "Event"},
     {"nodes", "node", "Node"},
     {"configmaps", "configmap", "ConfigMap"},
     {"secrets", "secret", "Secret"},
     {"images", "image", ""}}};

constexpr std::array<std::pair<std::string_view, Resource>, 27> kWords = {
    {{"po", Resource::kPods},
     {"pod", Resource::kPods},
     {"pods", Resource::kPods},
     {"svc", Resource::kServices},
     {"service", Resource::kServices},
     {"services", Resource::kServices},
     {"ep", Resource::kEndpoints},
     {"endpoints", Resource::kEndpoints},
     {"endpointslice", Resource::kEndpointSlices},
     {"endpointslices", Resource::kEndpointSlices},
     {"endpointslice.discovery.k8s.io", Resource::kEndpointSlices},
     {"endpointslices.discovery.k8s.io", Resource::kEndpointSlices},
     {"ev", Resource::kEvents},
     {"event", Resource::kEvents},
     {"events", Resource::kEvents},
     {"no", Resource::kNodes},
     {"node", Resource::kNodes},
     {"nodes", Resource::kNodes},
     {"cm", Resource::kConfigMaps},
     {"configmap", Resource::kConfigMaps},
     {"configmaps", Resource::kConfigMaps},
     {"secret", Resource::kSecrets},
     {"secrets", Resource::kSecrets},
     {"image", Resource::kImages},
     {"images", Resource::kImages},
     // kubectl's category, as far as it is here.
     {"all", Resource::kPods},
     {"all", Resource::kServices}}};

// Kinds of Kubernetes that need an API server: singular and short names. A plural ends in "s".
constexpr std::array kElsewhere = {"cj",
                                   "cronjob",
                                   "crd",
                                   "customresourcedefinition",
                                   "ds",
                                   "daemonset",
                                   "deploy",
                                   "deployment",
                                   "hpa",
                                   "horizontalpodautoscaler",
                                   "ing",
                                   "ingress",
                                   "ingresse",
                                   "job",
                                   "lease",
                                   "limitrange",
                                   "limits",
                                   "netpol",
                                   "networkpolicy",
                                   "networkpolicie",
                                   "ns",
                                   "namespace",
                                   "pdb",
                                   "persistentvolume",
                                   "persistentvolumeclaim",
                                   "poddisruptionbudget",
                                   "pv",
                                   "pvc",
                                   "quota",
                                   "rc",
                                   "replicaset",
                                   "replicationcontroller",
                                   "resourcequota",
                                   "role",
                                   "rolebinding",
                                   "rs",
                                   "sa",
                                   "serviceaccount",
                                   "statefulset",
                                   "storageclass",
                                   "storageclasse",
                                   "sts"};

const ResourceNames& NamesOf(Resource resource) { return kNames.at(static_cast<size_t>(resource)); }

// "deployments.apps" is "deployment".
bool IsElsewhere(std::string_view word) {
  word = word.substr(0, word.find('.'));
  const auto is = [](std::string_view one) {
    return std::find(kElsewhere.begin(), kElsewhere.end(), one) != kElsewhere.end();
  };
  return is(word) || (word.ends_with('s') && is(word.substr(0, word.size() - 1)));
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

void AddOnce(std::vector<Resource>& list, Resource resource) {
  if (std::find(list.begin(), list.end(), resource) == list.end()) list.push_back(resource);
}

// "pods,svc", "all"; kInvalidArgument for the first word that names none.
Result<std::vector<Resource>> ReadKinds(const std::string& word) {
  std::vector<Resource> kinds;
  for (const std::string& part : Split(word, ',')) {
    bool known = false;
    for (const auto& [name, resource] : kWords) {
      if (name != part) continue;
      AddOnce(kinds, resource);
      known = true;
    }
    if (!known) return UnknownResource(part);
  }
  return kinds;
}

// "pod/a svc/b"
Result<ResourceWords> ReadPairs(const std::vector<std::string>& words) {
  ResourceWords read;
  for (const std::string& word : words) {
    const size_t slash = word.find('/');
    if (slash == std::string::npos) {
      return InvalidArgument(StrCat(word, ": either all are named as TYPE/NAME, or none"));
    }
    const auto resource = FindResource(word.substr(0, slash));
    if (!resource) return UnknownResource(word.substr(0, slash));
    AddOnce(read.resources, *resource);
    read.objects.push_back({*resource, word.substr(slash + 1)});
  }
  return read;
}

// Each of the names in each of the kinds.
Result<ResourceWords> ReadNames(std::vector<Resource> kinds,
                                const std::vector<std::string>& names) {
  ResourceWords read{.resources = std::move(kinds), .objects = {}};
  for (const Resource resource : read.resources) {
    for (const std::string& name : names) {
      const size_t slash = name.find('/');
      const auto named =
          slash == std::string::npos ? std::nullopt : FindResource(name.substr(0, slash));
      if (named && (*named != resource || read.resources.size() > 1)) {
        return InvalidArgument(StrCat(name, ": a kind was named already"));
      }
      read.objects.push_back({resource, named ? name.substr(slash + 1) : name});
    }
  }
  for (const ObjectName& object : read.objects) {
    if (object.name.empty()) return InvalidArgument("a name is empty");
  }
  return read;
}

}  // namespace

std::string_view Plural(Resource resource) { return NamesOf(resource).plural; }
std::string_view Singular(Resource resource) { return NamesOf(resource).singular; }
std::string_view KindOf(Resource resource) { return NamesOf(resource).kind; }

std::optional<Resource> FindResource(std::string_view word) {
  for (const auto& [name, resource] : kWords) {
    if (name == word && name != "all") return resource;
  }
  return std::nullopt;
}

Error UnknownResource(std::string_view word) {
  return InvalidArgument(StrCat("the server doesn't have a resource type \"", word,
                                "\"; there are pods, services, endpoints, endpointslices, events, "
                                "nodes, configmaps, secrets and images"));
}

Result<ResourceWords> ReadResourceWords(const std::vector<std::string>& words,
                                        std::optional<Resource> bare) {
  if (words.empty()) return InvalidArgument("you must name the type of resource, or TYPE/NAME");
  const std::string& first = words.front();
  const size_t slash = first.find('/');
  const std::string head = first.substr(0, slash);
  if (slash != std::string::npos) {
    const bool name_of_namespace = bare && !FindResource(head) && !IsElsewhere(head);
    return name_of_namespace ? ReadNames({*bare}, words) : ReadPairs(words);
  }
  auto kinds = ReadKinds(first);
  if (kinds) return ReadNames(std::move(*kinds), {words.begin() + 1, words.end()});
  const bool may_be_name = bare && first.find(',') == std::string::npos && !IsElsewhere(first);
  if (may_be_name) return ReadNames({*bare}, words);
  return kinds.error();
}

PodName ParsePodName(const std::string& text, const std::string& default_namespace) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {default_namespace, text};
  const std::string head = text.substr(0, slash);
  const std::string tail = text.substr(slash + 1);
  if (FindResource(head) == Resource::kPods) return {default_namespace, tail};
  return {head, tail};
}

Result<PodName> ReadPodName(const std::string& text, const std::string& default_namespace) {
  const std::string head = text.substr(0, text.find('/'));
  if (head.size() == text.size()) return PodName{default_namespace, text};
  if (IsElsewhere(head)) return UnknownResource(head);
  const auto resource = FindResource(head);
  if (resource && *resource != Resource::kPods) {
    return InvalidArgument(
        StrCat(text, ": ", Plural(*resource), " have no containers: name a pod"));
  }
  return ParsePodName(text, default_namespace);
}

}  // namespace holdfast::agent::cli
