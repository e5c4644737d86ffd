// SPDX-License-Identifier: Apache-2.0
// What the agent knows, asked with one call each, and finding in it what a person named.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/cli/resource.h"
#include "agent/cli/session.h"
#include "holdfast/v1/node_agent.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

// A list, or why there is none.
template <class Object>
struct Listed {
  grpc::Status status;
  std::vector<Object> objects;
};

// "" is all namespaces; an empty selector fits everything.
Listed<k8s::io::api::core::v1::Pod> ListPods(Session& session, const std::string& name_space,
                                             const std::string& selector = "");
Listed<k8s::io::api::core::v1::Service> ListServices(Session& session,
                                                     const std::string& name_space,
                                                     const std::string& selector = "");
// Of one Service, or of all.
Listed<k8s::io::api::discovery::v1::EndpointSlice> ListSlices(Session& session,
                                                              const std::string& name_space,
                                                              const std::string& service = "");
// In the order in which they were recorded.
Listed<k8s::io::api::core::v1::Event> ListEvents(Session& session,
                                                 const v1::ListEventsRequest& request);
// The one node.
Listed<k8s::io::api::core::v1::Node> ListNodes(Session& session);

// How an object's name answers to what a person wrote. Pods of manifests carry their node's name.
enum class Fit : uint8_t { kNone, kBeginning, kWithoutNode, kWhole };

template <class Object>
Fit NameFit(const Object& object, const PodName& name) {
  const auto& meta = object.metadata();
  if (!meta.namespace_().empty() && meta.namespace_() != name.name_space) return Fit::kNone;
  if (meta.name() == name.name) return Fit::kWhole;
  if constexpr (std::is_same_v<Object, k8s::io::api::core::v1::Pod>) {
    if (meta.name() == name.name + "-" + object.spec().nodename()) return Fit::kWithoutNode;
  }
  return !name.name.empty() && meta.name().starts_with(name.name) ? Fit::kBeginning : Fit::kNone;
}

// Those that fit best; several only where it is a beginning.
template <class Object>
std::vector<const Object*> BestFits(const std::vector<Object>& objects, const PodName& name) {
  std::vector<const Object*> best;
  Fit least = Fit::kBeginning;
  for (const Object& object : objects) {
    const Fit fit = NameFit(object, name);
    if (fit < least) continue;
    if (fit > least) best.clear();
    least = fit;
    best.push_back(&object);
  }
  return best;
}

// The one pod that fits best. kNotFound: `pods "x" not found`; kInvalidArgument lists the
// candidates.
Result<const k8s::io::api::core::v1::Pod*> PickPod(
    const std::vector<k8s::io::api::core::v1::Pod>& pods, const PodName& name);

// Asks the agent for the pods of the name's namespace, and picks. The status is OK or what to
// report.
grpc::Status FindPod(Session& session, const std::string& text, k8s::io::api::core::v1::Pod& pod);

}  // namespace holdfast::agent::cli
