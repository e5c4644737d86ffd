// SPDX-License-Identifier: Apache-2.0
// StaleFlows: a UDP or SCTP flow keeps the endpoint that its first packet got for as long as its
// client sends. After each change of Services the flows whose endpoint is gone are deleted, so that
// their next packet is decided anew; TCP ends by itself. The same for every back end; to be called
// when its rules are in place, or a flow would be made anew by the old ones. Bound to the network
// namespace of the thread that opened it. One thread at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/service_table.h"
#include "holdfast/sys/nfnl.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

// What flows to one port may look like. Pure.
class FlowRules {
 public:
  // `before` or `after` may be null. Nothing is added where nothing can have become stale.
  void Add(const model::ServicePortRow* before, const model::ServicePortRow* after);

  struct Port {
    bool v6 = false;
    model::L4Protocol protocol = model::L4Protocol::kUdp;
    uint16_t port = 0;
    auto operator<=>(const Port&) const = default;
  };
  // Of these ports there may be stale flows.
  std::set<Port> Ports() const;
  // `own` are the addresses of the node: only there a node port is one.
  bool IsStale(const Port& port, const sys::Flow& flow, const std::set<IpAddress>& own) const;

 private:
  struct Fate {
    bool exists = false;                 // the frontend is still there
    std::set<model::Endpoint> may_stay;  // of a frontend that is
    std::set<model::Endpoint> must_go;   // of one that is not
  };
  void AddFrontends(const model::ServicePortRow& row, bool exists,
                    const std::set<model::Endpoint>& endpoints);

  std::map<std::pair<Port, IpAddress>, Fate> fates_;  // a node port has the unspecified address
};

class StaleFlows {
 public:
  static Result<StaleFlows> Open();

  // After `change` was applied: deletes what became stale by it, and returns how many. The first
  // complete change looks at the flows of all its rows, whoever made them. After an error the next
  // change must be complete; it does what this one should have.
  Result<size_t> After(const model::ServiceChange& change);

 private:
  StaleFlows(sys::NfSocket socket, sys::Rtnl rtnl)
      : socket_(std::move(socket)), rtnl_(std::move(rtnl)) {}
  using Undo = std::vector<std::pair<model::ServicePortKey, model::ServicePortRowPtr>>;
  // Takes the change over into rows_; `undo` gets what was there before.
  FlowRules Enter(const model::ServiceChange& change, Undo& undo);
  Result<size_t> Delete(const FlowRules& rules);

  sys::NfSocket socket_;
  sys::Rtnl rtnl_;
  std::map<model::ServicePortKey, model::ServicePortRowPtr> rows_;  // without TCP
};

}  // namespace holdfast::netproxy
