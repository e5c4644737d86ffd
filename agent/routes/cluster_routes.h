// SPDX-License-Identifier: Apache-2.0
// ClusterRoutes: which addresses the pods of this node get and how those of the others are reached, kept as the cluster
// says it: its own ranges from its Node, routes and ranges that are not masqueraded from all Nodes.
//
// What the API thread learns is carried out on a thread of its own, the newest state at a time, and again each minute,
// since others write routes too. Nothing is taken away before the first whole list of Nodes.
// Source: join.md 1.3 ("Routes"), control-plane.md 4.8, 8.3.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/worker_pool.h"
#include "agent/cluster/api.h"
#include "agent/cluster/reflector.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "netproxy/routes/plan.h"

namespace holdfast::agent {

struct ClusterRoutesOptions {
  std::string node_name;
  std::vector<Cidr> configured;  // for a Node that has no ranges
};

// Called from the routes' thread.
struct ClusterRoutesCallbacks {
  // nullopt: stay as they are.
  std::function<Result<void>(std::vector<Cidr> own, std::optional<std::vector<Cidr>> direct)>
      set_ranges;
  // What has no way, in words.
  std::function<Result<std::vector<std::string>>(const std::vector<netproxy::NodePeer>& peers,
                                                 const netproxy::NodePeer& self)>
      set_routes;
  std::function<void(const std::string& line)> log;
};

class ClusterRoutes : private ObjectHandler {
 public:
  // `api` is borrowed.
  ClusterRoutes(Api& api, ClusterRoutesOptions options, ClusterRoutesCallbacks callbacks);
  // After the API thread ended, or on it. Waits for what is being carried out.
  ~ClusterRoutes() override;

  Result<void> Start();
  // Carries out what waits; afterwards the API thread does it itself. Before what the callbacks use goes.
  void Finish() { pool_.Finish(); }
  // Begins to follow the Nodes.
  void Follow();
  // What the Node of this node says. On the API thread. Before the first call the ranges stay as they are.
  void SetOwn(std::vector<Cidr> ranges);

  // What the reflector calls.
  ObjectHandler& nodes() { return *this; }

 private:
  struct Wanted {
    std::vector<Cidr> own;
    std::vector<IpAddress> own_addresses;                  // as the other nodes see them
    std::optional<std::vector<netproxy::NodePeer>> peers;  // none before the first whole list
  };

  void ListBegins() override {}
  void Put(kube::ObjectPtr object) override;
  void Gone(kube::ObjectPtr last) override;
  void ListEnds() override;
  void Trouble(const Error& error) override;

  void SetOwnAddresses(std::vector<IpAddress> addresses);
  void Want();
  void CarryOut();
  void ArmRepair();
  void Tell(std::string line, std::string& told);

  Api& api_;
  const ClusterRoutesOptions options_;
  const ClusterRoutesCallbacks callbacks_;

  // Of the API thread.
  std::map<std::string, netproxy::NodePeer> nodes_;
  std::vector<IpAddress> own_addresses_;
  bool complete_ = false;
  std::string trouble_;
  TicketPtr ticket_, repair_;

  // Of the thread that carries out.
  std::string ranges_error_, routes_error_;
  std::set<std::string> problems_;

  std::mutex mutex_;  // guards what follows
  Wanted wanted_;
  bool posted_ = false;

  WorkerPool pool_;  // last: its thread uses the rest
};

}  // namespace holdfast::agent
