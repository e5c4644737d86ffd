// SPDX-License-Identifier: Apache-2.0
// Objects as table rows, in kubectl's columns. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/table.h"
#include "holdfast/base/clock.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

struct RowStyle {
  bool wide = false;
  bool with_namespace = false;  // -A
  bool with_kind = false;       // "pod/web": tables of several kinds
  WallTime now;
};

using Cells = std::vector<std::string>;

// `rest`, behind `first` where namespaces are shown.
Cells WithNamespace(const RowStyle& style, std::string first, Cells rest);

Cells PodHeader(const RowStyle& style);
Cells PodRow(const k8s::io::api::core::v1::Pod& pod, const RowStyle& style);

Cells EventHeader(const RowStyle& style);
Cells EventRow(const k8s::io::api::core::v1::Event& event, const RowStyle& style);
// When the event last happened.
WallTime EventTime(const k8s::io::api::core::v1::Event& event);
// "12s", or "12s (x5 over 3m)" when it happened more than once.
std::string LastSeen(const k8s::io::api::core::v1::Event& event, WallTime now);

Cells NodeHeader(const RowStyle& style);
Cells NodeRow(const k8s::io::api::core::v1::Node& node, const RowStyle& style);
// "control-plane,worker", "<none>".
std::string NodeRoles(const k8s::io::api::core::v1::Node& node);

Cells ServiceHeader(const RowStyle& style);
Cells ServiceRow(const k8s::io::api::core::v1::Service& service, const RowStyle& style);

// As kubectl's columns of both: how many values each has.
Cells ConfigMapHeader(const RowStyle& style);
Cells ConfigMapRow(const k8s::io::api::core::v1::ConfigMap& map, const RowStyle& style);
Cells SecretHeader(const RowStyle& style);
Cells SecretRow(const v1::ListSecretsResponse::Secret& secret, const RowStyle& style);

// Of an image: without "sha256:", twelve digits.
std::string ShortId(const std::string& id);

// "a=1,b=2", "<none>".
std::string SelectorOf(const k8s::io::api::core::v1::Service& service);

using Slice = k8s::io::api::discovery::v1::EndpointSlice;

// The Service whose slice it is, "" for nobody's.
std::string ServiceOfSlice(const Slice& slice);

// "10.88.0.5:80", "[fd00::5]:80": the ready ones of every port, or of the port with that name.
std::vector<std::string> ReadyEndpoints(const Slice& slice, const std::string* port_name = nullptr);
// The first three and how many more there are; all of them with `all`.
std::string ShownEndpoints(const std::vector<std::string>& endpoints, bool all,
                           std::string_view if_empty = "<none>");

// The slices of one Service as one row, as kubectl shows Endpoints.
struct EndpointsOfService {
  std::string name_space;
  std::string service;
  std::vector<const Slice*> slices;
};
std::vector<EndpointsOfService> GroupByService(const std::vector<Slice>& slices);
Cells EndpointsHeader(const RowStyle& style);
Cells EndpointsRow(const EndpointsOfService& endpoints, const RowStyle& style);

// The slices themselves.
Cells SliceHeader(const RowStyle& style);
Cells SliceRow(const Slice& slice, const RowStyle& style);

Cells ImageHeader(const RowStyle& style);
// One row per name; one with <none> for an image without a name.
std::vector<Cells> ImageRows(const v1::Image& image, const RowStyle& style);

// "187MB": three digits, decimal units.
std::string HumanBytes(uint64_t bytes);

}  // namespace holdfast::agent::cli
