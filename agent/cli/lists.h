// SPDX-License-Identifier: Apache-2.0
// What the agent knows, asked with one call each.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/session.h"
#include "holdfast/v1/node_agent.pb.h"
#include "k8s/core/v1/config.pb.h"
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
Listed<k8s::io::api::core::v1::ConfigMap> ListConfigMaps(Session& session,
                                                         const std::string& name_space,
                                                         const std::string& selector = "");
// What the agent tells of a Secret: everything but the values.
using SecretSummary = v1::ListSecretsResponse::Secret;
Listed<SecretSummary> ListSecrets(Session& session, const std::string& name_space,
                                  const std::string& selector = "");
// The one node.
Listed<k8s::io::api::core::v1::Node> ListNodes(Session& session);

}  // namespace holdfast::agent::cli
