// SPDX-License-Identifier: Apache-2.0
// Objects as table rows, in kubectl's columns. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/cli/table.h"
#include "holdfast/base/clock.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

struct RowStyle {
  bool wide = false;
  bool with_namespace = false;  // -A
  WallTime now;
};

using Cells = std::vector<std::string>;

Cells PodHeader(const RowStyle& style);
Cells PodRow(const k8s::io::api::core::v1::Pod& pod, const RowStyle& style);

Cells EventHeader(const RowStyle& style);
Cells EventRow(const k8s::io::api::core::v1::Event& event, const RowStyle& style);
// When the event last happened.
WallTime EventTime(const k8s::io::api::core::v1::Event& event);
WallTime FirstEventTime(const k8s::io::api::core::v1::Event& event);

Cells NodeHeader(const RowStyle& style);
Cells NodeRow(const k8s::io::api::core::v1::Node& node, const RowStyle& style);

Cells ServiceHeader(const RowStyle& style);
Cells ServiceRow(const k8s::io::api::core::v1::Service& service, const RowStyle& style);

using Slice = k8s::io::api::discovery::v1::EndpointSlice;

// The Service whose slice it is, "" for nobody's.
std::string ServiceOfSlice(const Slice& slice);

// The slices of one Service as one row, as kubectl shows Endpoints.
struct EndpointsOfService {
  std::string name_space;
  std::string service;
  std::vector<const Slice*> slices;
};
std::vector<EndpointsOfService> GroupByService(const std::vector<Slice>& slices);
Cells EndpointsHeader(const RowStyle& style);
Cells EndpointsRow(const EndpointsOfService& endpoints, const RowStyle& style);

Cells ImageHeader(const RowStyle& style);
// One row per name; one with <none> for an image without a name.
std::vector<Cells> ImageRows(const v1::Image& image, const RowStyle& style);

// "187MB": three digits, decimal units.
std::string HumanBytes(uint64_t bytes);

}  // namespace holdfast::agent::cli
