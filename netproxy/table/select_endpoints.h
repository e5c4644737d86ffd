// SPDX-License-Identifier: Apache-2.0
// Which endpoints of a service port get packets, and why the others get none. Pure; the rules of
// the table and the explanations come from the same judgement.
//
// The two lists are decided apart from each other (feature-map 4.2.12, 4.2.13):
//   cluster   the ready ones. If every ready one has node hints and one names this node: only those
//             that name it; else if every ready one has zone hints and one names this zone: only
//             those that name it. If nothing is ready anywhere: the serving ones that terminate.
//   local     the ready ones on this node; if there is none: the serving ones here that terminate.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "holdfast/model/proxy_table.h"
#include "holdfast/model/service.h"

namespace holdfast::netproxy {

enum class EndpointVerdict : uint8_t {
  kUsed,
  kUsedWhileTerminating,  // nothing is ready, so what still serves does
  kNotReady,
  kTerminating,     // serving, but others are ready
  kHintsOtherNode,  // all ready ones are hinted, some for this node
  kHintsOtherZone,
  kNotHere,  // local list only
  kWrongFamily,
  kForbiddenAddress,  // loopback, link-local, multicast or unspecified
};

// One sentence part, for people: "not ready".
std::string_view Describe(EndpointVerdict verdict);
inline bool IsUsed(EndpointVerdict v) {
  return v == EndpointVerdict::kUsed || v == EndpointVerdict::kUsedWhileTerminating;
}

struct JudgedEndpoint {
  model::Endpoint target;
  uint8_t flags = 0;    // model::EndpointFlag
  uint32_t origin = 0;  // model::SliceEndpoint::origin
  EndpointVerdict cluster = EndpointVerdict::kNotReady;
  EndpointVerdict local = EndpointVerdict::kNotReady;
};

// The endpoints that the slices of a service have for one of its ports, sorted by target. A target
// that several slices name counts once: here before elsewhere, ready before serving before neither.
std::vector<JudgedEndpoint> JudgeEndpoints(std::span<const model::EndpointSlice* const> slices,
                                           const model::ServicePort& port, bool v6);

}  // namespace holdfast::netproxy
