// SPDX-License-Identifier: Apache-2.0
// `describe`: everything about one object for a person to read, in kubectl's layout. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/describe_writer.h"
#include "agent/kube/annotations.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/strings.h"
#include "holdfast/v1/node_agent.pb.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {

using Events = std::vector<k8s::io::api::core::v1::Event>;

// Of a pod; which container waits for which is decided here.
using Pulls = std::vector<v1::ListPullsResponse::Pull>;

std::string DescribePod(const k8s::io::api::core::v1::Pod& pod, const Events& events,
                        const Pulls& pulls, WallTime now);

// `pods`: those of the node; which of them count is decided here.
std::string DescribeNode(const k8s::io::api::core::v1::Node& node,
                         const std::vector<k8s::io::api::core::v1::Pod>& pods, const Events& events,
                         WallTime now);

// `slices`: those of the Service.
std::string DescribeService(const k8s::io::api::core::v1::Service& service,
                            const std::vector<k8s::io::api::discovery::v1::EndpointSlice>& slices,
                            const Events& events, WallTime now);

std::string DescribeConfigMap(const k8s::io::api::core::v1::ConfigMap& map, const Events& events,
                              WallTime now);

// Never a value.
std::string DescribeSecret(const v1::ListSecretsResponse::Secret& secret);

// --- what they share ---

// "key=value" or "key: value", sorted.
template <class Map>
std::vector<std::string> Pairs(const Map& map, std::string_view between) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : map) pairs.push_back(StrCat(key, between, value));
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// "Labels:" and "Annotations:", as kubectl without its own copy of the object.
template <class Meta>
void DescribeLabels(const Meta& meta, DescribeWriter& out) {
  out.List(0, "Labels:", Pairs(meta.labels(), "="));
  auto annotations = meta.annotations();
  annotations.erase(kube::kLastAppliedConfiguration);
  out.List(0, "Annotations:", Pairs(annotations, ": "));
}

// Amounts of resources, sorted, below a title; nothing where there are none.
void DescribeQuantities(int level, const char* title, const auto& quantities, DescribeWriter& out) {
  if (quantities.empty()) return;
  out.Text(level, title);
  std::map<std::string, std::string> sorted;
  for (const auto& [name, quantity] : quantities) sorted[name] = quantity.string();
  for (const auto& [name, quantity] : sorted) out.Line(level + 1, name + ":", quantity);
}

// The "Events:" block.
void DescribeEvents(const Events& events, WallTime now, DescribeWriter& out);

}  // namespace holdfast::agent::cli
