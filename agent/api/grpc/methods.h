// SPDX-License-Identifier: Apache-2.0
// The one table from a method of holdfast.v1.NodeAgent to the operation that it is. A method without
// a row does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/access/roles.h"

namespace holdfast::agent::api {

enum class Method : uint8_t {
  kListPods,
  kGetPod,
  kWatchPods,
  kListEvents,
  kWatchEvents,
  kGetNode,
  kListServices,
  kListEndpointSlices,
  kExplainService,
  kDumpProxy,
  kListImages,
  kGetImage,
  kImportImage,
  kPullImage,
  kExportImage,
  kRemoveImage,
  kLogs,
  kExec,
  kApply,
  kDelete,
  kCheck,
  kCheckRepair,  // Check with repair
  kVersion,
  kGetStats,
  kAttach,
  kPortForward,
  kAddEphemeralContainer,
  kTagImage,
  kPushImage,
  kPruneImages,
  kImageUsage,
  kListPulls,
  kListConfigMaps,
  kListSecrets,
  kCount,
};

struct MethodRow {
  Method method;
  std::string_view name;  // as in the .proto
  access::Operation operation;
};

inline constexpr std::array<MethodRow, static_cast<size_t>(Method::kCount)> kMethods = {{
    {Method::kListPods, "ListPods", access::Operation::kReadStatus},
    {Method::kGetPod, "GetPod", access::Operation::kReadStatus},
    {Method::kWatchPods, "WatchPods", access::Operation::kReadStatus},
    {Method::kListEvents, "ListEvents", access::Operation::kReadStatus},
    {Method::kWatchEvents, "WatchEvents", access::Operation::kReadStatus},
    {Method::kGetNode, "GetNode", access::Operation::kReadStatus},
    {Method::kListServices, "ListServices", access::Operation::kReadStatus},
    {Method::kListEndpointSlices, "ListEndpointSlices", access::Operation::kReadStatus},
    {Method::kExplainService, "ExplainService", access::Operation::kReadStatus},
    {Method::kDumpProxy, "DumpProxy", access::Operation::kReadStatus},
    {Method::kListImages, "ListImages", access::Operation::kReadStatus},
    {Method::kGetImage, "GetImage", access::Operation::kReadStatus},
    {Method::kImportImage, "ImportImage", access::Operation::kMutate},
    {Method::kPullImage, "PullImage", access::Operation::kMutate},
    {Method::kExportImage, "ExportImage", access::Operation::kReadData},
    {Method::kRemoveImage, "RemoveImage", access::Operation::kMutate},
    {Method::kLogs, "Logs", access::Operation::kReadData},
    {Method::kExec, "Exec", access::Operation::kExec},
    {Method::kApply, "Apply", access::Operation::kMutate},
    {Method::kDelete, "Delete", access::Operation::kMutate},
    {Method::kCheck, "Check", access::Operation::kReadStatus},
    {Method::kCheckRepair, "Check repair", access::Operation::kNodeAdmin},
    {Method::kVersion, "Version", access::Operation::kReadStatus},
    {Method::kGetStats, "GetStats", access::Operation::kReadStatus},
    {Method::kAttach, "Attach", access::Operation::kExec},
    {Method::kPortForward, "PortForward", access::Operation::kExec},
    {Method::kAddEphemeralContainer, "AddEphemeralContainer", access::Operation::kMutate},
    {Method::kTagImage, "TagImage", access::Operation::kMutate},
    {Method::kPushImage, "PushImage", access::Operation::kMutate},
    {Method::kPruneImages, "PruneImages", access::Operation::kMutate},
    {Method::kImageUsage, "ImageUsage", access::Operation::kReadStatus},
    {Method::kListPulls, "ListPulls", access::Operation::kReadStatus},
    // Environments and files of pods are made of them.
    {Method::kListConfigMaps, "ListConfigMaps", access::Operation::kReadData},
    {Method::kListSecrets, "ListSecrets", access::Operation::kReadData},
}};

constexpr const MethodRow& RowOf(Method method) { return kMethods[static_cast<size_t>(method)]; }

consteval bool MethodTableIsComplete() {
  for (size_t i = 0; i < kMethods.size(); ++i) {
    if (static_cast<size_t>(kMethods[i].method) != i || kMethods[i].name.empty()) return false;
  }
  return true;
}
static_assert(MethodTableIsComplete(), "every Method needs its row, in order");

}  // namespace holdfast::agent::api
