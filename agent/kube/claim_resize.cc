// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/claim_resize.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "agent/kube/quantity.h"
#include "agent/kube/times.h"

namespace holdfast::agent::kube {
namespace {

using Json = nlohmann::json;

constexpr char kStorage[] = "storage";
constexpr char kPending[] = "NodeResizePending";
constexpr char kInProgress[] = "NodeResizeInProgress";
constexpr char kInfeasible[] = "NodeResizeInfeasible";
constexpr char kNodeResizeError[] = "NodeResizeError";
// Of which a claim is rid once it has its size.
constexpr std::array<std::string_view, 4> kResizeConditions = {
    "Resizing", "FileSystemResizePending", "ControllerResizeError", kNodeResizeError};

std::string StateOf(const Claim& claim) {
  const auto& states = claim.status().allocatedresourcestatuses();
  const auto found = states.find(kStorage);
  return found == states.end() ? "" : found->second;
}

template <class Quantities>
Amount StorageIn(const Quantities& quantities) {
  const auto found = quantities.find(kStorage);
  if (found == quantities.end()) return {};
  return Amount::Parse(found->second.string()).value_or(Amount());
}

Json OfVersion(const std::string& version) {
  return {{"metadata", {{"resourceVersion", version}}}};
}

}  // namespace

bool AwaitsNodeResize(const Claim& claim) {
  const std::string state = StateOf(claim);
  if (state != kPending && state != kInProgress) return false;
  return StorageIn(claim.status().allocatedresources()) > StorageIn(claim.status().capacity());
}

std::string SizeToBe(const Claim& claim) {
  return StorageIn(claim.status().allocatedresources()).ToString();
}

std::string ResizeBegun(const Claim& claim) {
  if (StateOf(claim) == kInProgress) return "";
  Json patch = OfVersion(claim.metadata().resourceversion());
  patch["status"]["allocatedResourceStatuses"][kStorage] = kInProgress;
  return patch.dump();
}

std::string ResizeDone(const Claim& claim, const std::string& version) {
  Json patch = OfVersion(version);
  Json& status = patch["status"];
  status["capacity"][kStorage] = SizeToBe(claim);
  status["allocatedResourceStatuses"][kStorage] = nullptr;
  for (const auto& condition : claim.status().conditions()) {
    if (std::ranges::find(kResizeConditions, condition.type()) == kResizeConditions.end()) continue;
    status["conditions"].push_back({{"$patch", "delete"}, {"type", condition.type()}});
  }
  return patch.dump();
}

std::string ResizeFailed(const Claim& claim, const std::string& why, bool infeasible,
                         WallTime now) {
  const auto& conditions = claim.status().conditions();
  const bool is_told = std::ranges::any_of(conditions, [](const auto& condition) {
    return condition.type() == kNodeResizeError && condition.status() == "True";
  });
  Json status = Json::object();
  if (!is_told) {
    status["conditions"].push_back({{"type", kNodeResizeError},
                                    {"status", "True"},
                                    {"lastTransitionTime", FormatRfc3339(now)},
                                    {"message", "failed to expand pvc with " + why}});
  }
  if (infeasible) status["allocatedResourceStatuses"][kStorage] = kInfeasible;
  return status.empty() ? "" : Json{{"status", status}}.dump();
}

}  // namespace holdfast::agent::kube
