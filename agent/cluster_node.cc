// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster_node.h"

#include <future>
#include <utility>

#include "agent/kube/network_not_ready.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kNetwork[] = "network";

// The parts without which no pod can run, as a kubelet names them.
std::vector<ReadyInput> ReadyInputs(const PodNetworkConfig& network) {
  const char* const problem = network.IsCni()
                                  ? "Network plugin returns error: cni plugin not initialized"
                                  : "the Node has no spec.podCIDRs yet";
  return {{kNetwork, kube::NetworkNotReady(problem), false}};
}

NodeRegistration RegistrationOf(const NodeConfig& config) {
  NodeRegistration registration;
  for (const NodeTaint& taint : config.taints) {
    auto& made = registration.taints.emplace_back();
    made.set_key(taint.key);
    made.set_value(taint.value);
    made.set_effect(taint.effect);
  }
  return registration;
}

}  // namespace

Result<std::unique_ptr<ClusterNode>> ClusterNode::Open(ClusterNodeOptions options) {
  std::unique_ptr<ClusterNode> node(new ClusterNode(std::move(options)));
  const ClusterNodeOptions& given = node->options_;
  ASSIGN_OR_RETURN(node->identity_, ClusterIdentity::Open({given.config, given.version, given.clock,
                                                           given.events, given.log}));
  RETURN_IF_ERROR(node->OpenApis());
  node->OpenReporters();
  ApiPodInputsOptions inputs;
  inputs.service_variables = [n = node.get()](
                                 const std::string& of_namespace,
                                 bool links) -> std::optional<std::vector<std::string>> {
    const ClusterServices* services = n->services_;
    if (services == nullptr) return std::nullopt;
    return services->Variables(of_namespace, links);
  };
  node->inputs_ =
      std::make_unique<ApiPodInputs>(*node->api_, node->options_.clock, std::move(inputs));
  node->accounts_ = std::make_unique<ApiAccountTokens>(*node->api_, node->options_.clock);
  node->last_known_ = std::make_unique<LastKnownInputs>(
      *node->inputs_, node->options_.clock, node->options_.kept_inputs,
      [n = node.get()] { return n->options_.registry.IsComplete(PodOrigin::kApi); },
      node->options_.log);
  return node;
}

// A mirror is known by its own UID, which the static pod does not have.
void ClusterNode::OpenReporters() {
  const auto find = [this](const PodUid& uid) {
    const PodPtr pod = options_.registry.Find(uid);
    return pod != nullptr ? pod : mirrors_->Find(uid);
  };
  reporter_ = std::make_unique<ApiPodReporter>(*api_, find, options_.log);
  MirrorPodsOptions mirrors;
  mirrors.node_name = options_.config.instance.node_name;
  mirrors.seen = [this](const PodUid& uid) { reporter_->Look(uid); };
  mirrors.trouble = [this](const std::string& why) {
    options_.log(why);
    const std::string& node = options_.config.instance.node_name;
    options_.events.AddEvent(NodeSubject(node), {true, "FailedMirrorPod", why, "", false});
  };
  mirrors_ = std::make_unique<MirrorPods>(*api_, *reporter_, std::move(mirrors));
}

Result<void> ClusterNode::OpenApis() {
  NodeCredentials& identity = identity_->node();
  ClusterApiOptions api;
  api.config = identity.Current();
  api.version = options_.version;
  api.unauthorized = [&identity] { identity.Refused(); };
  ASSIGN_OR_RETURN(heartbeat_api_, ClusterApi::Start(api));
  ASSIGN_OR_RETURN(api_, ClusterApi::Start(std::move(api)));
  identity_->PublishTo([this](const Result<KubeConfig>& credentials) {
    heartbeat_api_->SetConfig(credentials);
    api_->SetConfig(credentials);
  });
  return {};
}

// Each of the two threads calls what belongs to the other one, so nobody may be in the middle of it.
ClusterNode::~ClusterNode() {
  if (registrar_) registrar_->SetListener({});
  if (identity_) identity_->PublishTo({});
  if (routes_) routes_->Finish();
  if (api_) {
    std::promise<void> passed;
    api_->Post([&passed] { passed.set_value(); });
    passed.get_future().wait();
  }
  heartbeat_api_.reset();
  api_.reset();
}

RightsReview ClusterNode::ReviewRights() {
  const bool renews = options_.config.cluster.rotate_certificates &&
                      !options_.config.cluster.bootstrap_kubeconfig.empty();
  return agent::ReviewRights(*api_, RightsOfNode(options_.config.instance.node_name, renews));
}

Result<void> ClusterNode::OpenRoutes(netproxy::PodNet& network) {
  const model::Instance& instance = options_.config.instance;
  ASSIGN_OR_RETURN(kernel_routes_, netproxy::NodeRoutes::Open(
                                       {.tunnels = options_.config.cluster.node_tunnel == "vxlan",
                                        .interface_prefix = instance.interface_prefix,
                                        .table_name = instance.table_name}));
  ClusterRoutesOptions options;
  options.node_name = options_.config.instance.node_name;
  for (const std::string& text : options_.config.instance.pod_cidrs) {
    ASSIGN_OR_RETURN(const Cidr range, Cidr::Parse(text));
    options.configured.push_back(range);
  }
  ClusterRoutesCallbacks callbacks;
  callbacks.set_ranges = [this, &network](std::vector<Cidr> own, auto direct) {
    auto set = network.SetRanges(std::move(own), std::move(direct));
    if (set && network.NotReadyBecause().empty()) TellNetwork("");
    return set;
  };
  callbacks.set_routes = [this](const auto& peers, const auto& self) {
    return kernel_routes_->Apply(peers, self);
  };
  callbacks.log = options_.log;
  routes_ = std::make_unique<ClusterRoutes>(*api_, std::move(options), std::move(callbacks));
  return routes_->Start();
}

std::map<std::string, std::string> ClusterNode::labels() const {
  const NodeView* const view = view_;
  const auto node = view == nullptr ? nullptr : view->Get();
  return node == nullptr ? std::map<std::string, std::string>() : node->labels;
}

Result<void> ClusterNode::Join(ClusterNodeParts parts) {
  services_ = &parts.services;
  parts.services.WhenKnown([this] { inputs_->ServicesKnown(); });
  identity().SetAddresses([describe = parts.description] { return describe()->host_ips; });
  HeartbeatOptions heartbeat;
  heartbeat.node_name = options_.config.instance.node_name;
  heartbeat.others = {api_.get()};
  heartbeat.log = options_.log;
  heartbeat_ = std::make_unique<Heartbeat>(*heartbeat_api_, options_.clock, std::move(heartbeat));
  csi_node_ = std::make_unique<CsiNode>(*api_, options_.config.instance.node_name, options_.log);
  pods_ = std::make_unique<ApiPods>(
      options_.registry,
      ApiPodsCallbacks{options_.log, [this](const PodUid& uid) { reporter_->Look(uid); },
                       mirrors_.get(), [this] { reporter_->Listed(); }});
  NodeRegistrarOptions registrar;
  registrar.name = options_.config.instance.node_name;
  registrar.register_node = options_.config.cluster.register_node;
  registrar.registration = RegistrationOf(options_.config.node);
  registrar.ready_inputs = ReadyInputs(options_.config.pod_network);
  registrar.description = std::move(parts.description);
  registrar.log = options_.log;
  registrar.events = &parts.view;
  registrar_ = std::make_unique<NodeRegistrar>(*api_, options_.clock, std::move(registrar));
  view_ = registrar_.get();
  if (parts.network != nullptr) RETURN_IF_ERROR(OpenRoutes(*parts.network));
  events_ = std::make_unique<EventPoster>(
      *api_, parts.view, EventPosterOptions{[this] { return reporter_->IsBusy(); }, options_.log});
  registrar_->SetListener([this] { NodeChanged(); });
  api_->Post([this] {
    services_.load()->Follow();
    if (routes_) routes_->Follow();
    NodeChanged();
  });
  return {};
}

void ClusterNode::TellNetwork(const std::string& problem) {
  registrar_->SetReadyInput(kNetwork, kube::NetworkNotReady(problem));
}

void ClusterNode::NodeChanged() {
  const auto node = registrar_->Get();
  if (node == nullptr) return;
  heartbeat_->SetNodeUid(node->uid);
  mirrors_->SetNodeUid(node->uid);
  csi_node_->SetNodeUid(node->uid);
  if (node->uid.empty()) return;
  if (routes_) routes_->SetOwn(node->pod_ranges);
  services_.load()->SetZone(node->zone);
  if (!pods_ticket_) {
    pods_ticket_ = Reflect(*api_, PodsOfNode(options_.config.instance.node_name), *pods_);
  }
}

}  // namespace holdfast::agent
