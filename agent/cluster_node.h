// SPDX-License-Identifier: Apache-2.0
// ClusterNode: what makes this node one of a cluster, put together: the way to the API server, the Node and its Lease,
// the pods that are bound to it and their status, events, Services, ranges and routes.
//
// Three threads: one for everything, one for the Lease alone, one for who the node is. Made in two steps, since the rest of the agent needs the
// Api before there is something to follow.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/cluster_api.h"
#include "agent/cluster_identity.h"
#include "agent/config/agent_config.h"
#include "agent/identity/node_rights.h"
#include "agent/node/csi_node.h"
#include "agent/node/heartbeat.h"
#include "agent/node/node_description.h"
#include "agent/node/node_registrar.h"
#include "agent/objects/account_tokens.h"
#include "agent/objects/api_pod_inputs.h"
#include "agent/objects/last_known_inputs.h"
#include "agent/proxy/cluster_services.h"
#include "agent/report/api_pod_reporter.h"
#include "agent/report/event_poster.h"
#include "agent/report/mirror_pods.h"
#include "agent/routes/cluster_routes.h"
#include "agent/source/api_pods.h"
#include "agent/source/pod_registry.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "netproxy/podnet/pod_net.h"
#include "netproxy/routes/node_routes.h"

namespace holdfast::agent {

struct ClusterNodeOptions {
  const AgentConfig& config;
  std::string version;
  const Clock& clock;
  PodRegistry& registry;
  EventSink& events;
  LastKnownInputs::Read kept_inputs;
  std::function<void(const std::string& line)> log;
};

// What Join() follows the cluster with; all borrowed.
struct ClusterNodeParts {
  netproxy::PodNet* network;  // null: plugins make addresses and routes
  ClusterServices& services;
  PodViewStore& view;
  std::function<std::shared_ptr<const NodeDescription>()> description;  // must not block
};

class ClusterNode {
 public:
  // Reads the kubeconfig. kInvalidArgument when it cannot be used and there is nothing to bootstrap with.
  static Result<std::unique_ptr<ClusterNode>> Open(ClusterNodeOptions options);
  // Nobody reports any more. Pods, rules and the Node stay as they are; the Lease runs out.
  ~ClusterNode();
  ClusterNode(const ClusterNode&) = delete;
  ClusterNode& operator=(const ClusterNode&) = delete;

  Api& api() { return *api_; }
  // Blocks for as long as the API server takes to answer, some seconds at most.
  RightsReview ReviewRights();
  NodeCredentials& identity() { return identity_->node(); }
  PodReporter& reporter() { return *mirrors_; }
  PodInputs& inputs() { return *last_known_; }
  AccountTokens& accounts() { return *accounts_; }

  // The Node's labels as the API server has them; none before it was seen.
  std::map<std::string, std::string> labels() const;

  // The storage plugins that are there now. After Join().
  void TellDrivers(std::vector<CsiNodeDriver> drivers) {
    csi_node_->SetDrivers(std::move(drivers));
  }

  // Why pods cannot be given a network, as PodNetwork::NotReadyBecause(). After Join(), from any thread.
  void TellNetwork(const std::string& problem);

  // Registers and begins to follow; pods once the Node was seen, since it says which addresses they get.
  Result<void> Join(ClusterNodeParts parts);

 private:
  explicit ClusterNode(ClusterNodeOptions options) : options_(std::move(options)) {}
  Result<void> OpenApis();
  Result<void> OpenRoutes(netproxy::PodNet& network);
  void OpenReporters();
  void NodeChanged();

  const ClusterNodeOptions options_;
  std::atomic<ClusterServices*> services_ = nullptr;
  std::atomic<const NodeView*> view_ = nullptr;
  std::unique_ptr<netproxy::NodeRoutes> kernel_routes_;
  std::unique_ptr<ClusterRoutes> routes_;
  std::unique_ptr<ApiPodReporter> reporter_;
  std::unique_ptr<MirrorPods> mirrors_;
  std::unique_ptr<ApiPodInputs> inputs_;
  std::unique_ptr<LastKnownInputs> last_known_;
  std::unique_ptr<ApiAccountTokens> accounts_;
  std::unique_ptr<ApiPods> pods_;
  std::unique_ptr<NodeRegistrar> registrar_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<CsiNode> csi_node_;
  std::unique_ptr<EventPoster> events_;
  TicketPtr pods_ticket_;
  std::unique_ptr<ClusterIdentity> identity_;
  // When these have ended nobody above is called any more.
  std::unique_ptr<ClusterApi> api_;
  std::unique_ptr<ClusterApi> heartbeat_api_;
};

}  // namespace holdfast::agent
