// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/select_endpoints.h"

#include <algorithm>

#include "netproxy/table/service_addresses.h"

namespace holdfast::netproxy {
namespace {

using enum EndpointVerdict;

bool IsReady(const JudgedEndpoint& e) { return (e.flags & model::kEndpointReady) != 0; }
bool IsHere(const JudgedEndpoint& e) { return (e.flags & model::kEndpointHere) != 0; }
bool DrainsServing(const JudgedEndpoint& e) {
  constexpr uint8_t kBoth = model::kEndpointServing | model::kEndpointTerminating;
  return (e.flags & kBoth) == kBoth;
}

// Set by the gathering: such an endpoint takes no part in anything.
bool IsRefused(const JudgedEndpoint& e) {
  return e.cluster == kWrongFamily || e.cluster == kForbiddenAddress;
}

int Rank(const JudgedEndpoint& e) {
  const bool serving = (e.flags & model::kEndpointServing) != 0;
  return (IsHere(e) ? 4 : 0) + (IsReady(e) ? 2 : 0) + (serving ? 1 : 0);
}

void Gather(const model::EndpointSlice& slice, const model::SlicePort& port, bool v6,
            std::vector<JudgedEndpoint>& out) {
  for (const model::SliceEndpoint& endpoint : slice.endpoints) {
    JudgedEndpoint judged{{endpoint.address, port.port}, endpoint.flags, endpoint.origin};
    if (endpoint.address.v6 != v6) judged.cluster = judged.local = kWrongFamily;
    if (IsForbidden(endpoint.address)) judged.cluster = judged.local = kForbiddenAddress;
    out.push_back(judged);
  }
}

void Deduplicate(std::vector<JudgedEndpoint>& all) {
  std::stable_sort(all.begin(), all.end(), [](const JudgedEndpoint& a, const JudgedEndpoint& b) {
    if (a.target != b.target) return a.target < b.target;
    return Rank(a) > Rank(b);
  });
  const auto same = [](const JudgedEndpoint& a, const JudgedEndpoint& b) {
    return a.target == b.target;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
}

// Whether every ready endpoint has hints of this kind and one of them means us.
bool HintsApply(const std::vector<JudgedEndpoint>& all, uint8_t hinted, uint8_t for_us) {
  bool one = false;
  for (const JudgedEndpoint& e : all) {
    if (!IsReady(e) || IsRefused(e)) continue;
    if ((e.flags & hinted) == 0) return false;
    one = one || (e.flags & for_us) != 0;
  }
  return one;
}

// The flag that a ready endpoint needs for the cluster list; 0 where hints do not count.
struct Topology {
  uint8_t wanted = 0;
  EndpointVerdict otherwise = kUsed;
};

Topology TopologyOf(const std::vector<JudgedEndpoint>& all) {
  if (HintsApply(all, model::kEndpointNodeHints, model::kEndpointNodeHinted)) {
    return {model::kEndpointNodeHinted, kHintsOtherNode};
  }
  if (HintsApply(all, model::kEndpointZoneHints, model::kEndpointZoneHinted)) {
    return {model::kEndpointZoneHinted, kHintsOtherZone};
  }
  return {};
}

// `some_ready`: whether this list has a ready endpoint at all.
EndpointVerdict ByReadiness(const JudgedEndpoint& e, bool some_ready) {
  if (IsReady(e)) return kUsed;
  if (!DrainsServing(e)) return kNotReady;
  return some_ready ? kTerminating : kUsedWhileTerminating;
}

void Judge(std::vector<JudgedEndpoint>& all) {
  const auto counts = [&](auto predicate) {
    return std::any_of(all.begin(), all.end(), [&](const JudgedEndpoint& e) {
      return !IsRefused(e) && IsReady(e) && predicate(e);
    });
  };
  const bool some_ready = counts([](const JudgedEndpoint&) { return true; });
  const bool some_ready_here = counts(IsHere);
  const Topology topology = TopologyOf(all);
  for (JudgedEndpoint& e : all) {
    if (IsRefused(e)) continue;
    e.cluster = ByReadiness(e, some_ready);
    if (e.cluster == kUsed && topology.wanted != 0 && (e.flags & topology.wanted) == 0) {
      e.cluster = topology.otherwise;
    }
    e.local = IsHere(e) ? ByReadiness(e, some_ready_here) : kNotHere;
  }
}

}  // namespace

std::string_view Describe(EndpointVerdict verdict) {
  switch (verdict) {
    case kUsed:
      return "used";
    case kUsedWhileTerminating:
      return "used while it terminates, as none is ready";
    case kNotReady:
      return "not ready";
    case kTerminating:
      return "terminating, and others are ready";
    case kHintsOtherNode:
      return "its hints name other nodes, and others are hinted for this one";
    case kHintsOtherZone:
      return "its hints name other zones, and others are hinted for this one";
    case kNotHere:
      return "on another node";
    case kWrongFamily:
      return "of the other IP family";
    case kForbiddenAddress:
      return "an address that no endpoint may have";
  }
  return "";
}

std::vector<JudgedEndpoint> JudgeEndpoints(std::span<const model::EndpointSlice* const> slices,
                                           const model::ServicePort& port, bool v6) {
  std::vector<JudgedEndpoint> all;
  for (const model::EndpointSlice* slice : slices) {
    if (slice->v6 != v6) continue;
    for (const model::SlicePort& candidate : slice->ports) {
      if (candidate.name == port.name && candidate.protocol == port.protocol &&
          candidate.port != 0) {
        Gather(*slice, candidate, v6, all);
      }
    }
  }
  Deduplicate(all);
  Judge(all);
  return all;
}

}  // namespace holdfast::netproxy
