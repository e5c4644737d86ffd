// SPDX-License-Identifier: Apache-2.0
#include "agent/routes/cluster_routes.h"

#include <chrono>
#include <utility>

#include "holdfast/base/strings.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {
namespace {

using netproxy::NodePeer;

constexpr std::chrono::minutes kRepair{1};

// What cannot be read is left out: the API server checks it.
NodePeer PeerOf(const k8s::io::api::core::v1::Node& node) {
  NodePeer peer;
  peer.name = node.metadata().name();
  for (const std::string& text : node.spec().podcidrs()) {
    if (const auto range = Cidr::Parse(text)) peer.pod_ranges.push_back(*range);
  }
  for (const auto& address : node.status().addresses()) {
    if (address.type() != "InternalIP") continue;
    if (const auto ip = IpAddress::Parse(address.address())) peer.addresses.push_back(*ip);
  }
  return peer;
}

}  // namespace

ClusterRoutes::ClusterRoutes(Api& api, ClusterRoutesOptions options,
                             ClusterRoutesCallbacks callbacks)
    : api_(api),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      pool_({.name = "routes", .threads = 1}) {}

ClusterRoutes::~ClusterRoutes() = default;

Result<void> ClusterRoutes::Start() { return pool_.Start(); }

void ClusterRoutes::Follow() {
  ticket_ = Reflect(api_, {"/api/v1/nodes", "", {"v1", "Node"}, ApiLane::kBulk}, *this);
  ArmRepair();
}

void ClusterRoutes::ArmRepair() {
  repair_ = api_.After(kRepair, [this] {
    Want();
    ArmRepair();
  });
}

void ClusterRoutes::SetOwn(std::vector<Cidr> ranges) {
  if (ranges.empty()) ranges = options_.configured;
  {
    const std::lock_guard lock(mutex_);
    if (wanted_.own == ranges) return;
    wanted_.own = std::move(ranges);
  }
  Want();
}

void ClusterRoutes::Put(kube::ObjectPtr object) {
  NodePeer peer = PeerOf(static_cast<const k8s::io::api::core::v1::Node&>(*object));
  if (peer.name == options_.node_name) return SetOwnAddresses(std::move(peer.addresses));
  NodePeer& known = nodes_[peer.name];
  if (known == peer) return;  // its status alone changed
  known = std::move(peer);
  if (complete_) Want();
}

void ClusterRoutes::SetOwnAddresses(std::vector<IpAddress> addresses) {
  if (own_addresses_ == addresses) return;
  own_addresses_ = std::move(addresses);
  if (complete_) Want();
}

void ClusterRoutes::Gone(kube::ObjectPtr last) {
  const auto& node = static_cast<const k8s::io::api::core::v1::Node&>(*last);
  if (nodes_.erase(node.metadata().name()) > 0 && complete_) Want();
}

void ClusterRoutes::ListEnds() {
  complete_ = true;
  trouble_.clear();
  Want();
}

void ClusterRoutes::Trouble(const Error& error) {
  Tell(StrCat("nodes: ", error.message()), trouble_);
}

void ClusterRoutes::Want() {
  std::optional<std::vector<NodePeer>> peers;
  if (complete_) {
    peers.emplace();
    for (const auto& [name, peer] : nodes_) peers->push_back(peer);
  }
  const std::lock_guard lock(mutex_);
  wanted_.peers = std::move(peers);
  wanted_.own_addresses = own_addresses_;
  if (std::exchange(posted_, true)) return;
  pool_.Post([this] { CarryOut(); });
}

// Ranges first: a route without them would bring packets with an address that nobody can answer.
void ClusterRoutes::CarryOut() {
  Wanted wanted;
  {
    const std::lock_guard lock(mutex_);
    posted_ = false;
    wanted = wanted_;
  }
  std::optional<std::vector<Cidr>> direct;
  if (wanted.peers) direct = netproxy::ReachedDirectly(*wanted.peers);
  const auto ranges = callbacks_.set_ranges(wanted.own, std::move(direct));
  Tell(ranges ? "" : StrCat("pod ranges: ", ranges.error().message()), ranges_error_);
  if (!wanted.peers) return;
  const auto problems =
      callbacks_.set_routes(*wanted.peers, {options_.node_name, wanted.own, wanted.own_addresses});
  Tell(problems ? "" : StrCat("routes to other nodes: ", problems.error().message()),
       routes_error_);
  if (!problems) return;
  std::set<std::string> present(problems->begin(), problems->end());
  for (const std::string& problem : present) {
    if (!problems_.contains(problem)) callbacks_.log(problem);
  }
  problems_ = std::move(present);
}

void ClusterRoutes::Tell(std::string line, std::string& told) {
  if (line == told) return;
  told = std::move(line);
  if (!told.empty()) callbacks_.log(told);
}

}  // namespace holdfast::agent
