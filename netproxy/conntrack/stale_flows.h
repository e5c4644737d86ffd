// SPDX-License-Identifier: Apache-2.0
// StaleFlows: a UDP or SCTP flow keeps the endpoint that its first packet got for as long as its
// client sends. After each change of Services the flows whose endpoint is gone are deleted, so that
// their next packet is decided anew; TCP ends by itself. What began while the rules were away is
// bound to no endpoint at all, and so are all its packets, and those of the next connection from
// that port: TCP too, until somebody answers (nobody does, and the entry stays for two minutes).
//
// The same for every back end; to be called when its rules are in place, or a flow would be made
// anew by the old ones. Bound to the network namespace of the thread that opened it. One thread at
// a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/service_table.h"
#include "holdfast/sys/nfnl.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/conntrack/flow_record.h"

namespace holdfast::netproxy {

// What flows to one port may look like. Pure.
class FlowRules {
 public:
  // `before` or `after` may be null. Nothing is added where nothing can have become stale.
  void Add(const model::ServicePortRow* before, const model::ServicePortRow* after);

  // The rules of `row` may have been away: whatever has none of its endpoints goes; of TCP only what
  // nobody answered yet, for the rest is somebody's connection.
  void AddReturned(const model::ServicePortRow& row);

  // Of a place where a Service was, nobody knows with which endpoints: whatever was translated
  // goes, unless there is a Service again.
  void AddLeftBehind(const FlowPlace& place);

  using Port = FlowPort;
  // Of these ports there may be stale flows.
  std::set<Port> Ports() const;
  // `own` are the addresses of the node: only there a node port is one.
  bool IsStale(const Port& port, const sys::Flow& flow, const std::set<IpAddress>& own) const;

 private:
  struct Fate {
    bool exists = false;                 // the frontend is still there
    std::set<model::Endpoint> may_stay;  // of a frontend that is
    std::set<model::Endpoint> must_go;   // of one that is not
    bool left_behind = false;            // the same, with any endpoint
  };
  void AddFrontends(const model::ServicePortRow& row, bool exists,
                    const std::set<model::Endpoint>& endpoints);

  std::map<FlowPlace, Fate> fates_;
};

// Where flows of a UDP or SCTP row may go to; empty for TCP.
std::set<FlowPlace> FlowPlacesOf(const model::ServicePortRow& row);

class StaleFlows {
 public:
  // `record`: what a former agent left behind.
  static Result<StaleFlows> Open(FlowRecord record = {});

  // To be called before the rules of `change` are made: records where flows may come from. After an
  // error the rules may be made all the same; flows of theirs that outlive this agent may stay.
  Result<void> Before(const model::ServiceChange& change);

  // After `change` was applied: deletes what became stale by it, and returns how many. A complete
  // change looks at the flows of all its rows, whoever made them, and at those of Services that are
  // no more. After an error the next change must be complete; it does what this one should have.
  Result<size_t> After(const model::ServiceChange& change);
  // After the rules were put back that somebody had taken away.
  Result<size_t> AfterRepair();

 private:
  StaleFlows(sys::NfSocket socket, sys::Rtnl rtnl, FlowRecord record)
      : socket_(std::move(socket)), rtnl_(std::move(rtnl)), record_(std::move(record)) {}
  using Undo = std::vector<std::pair<model::ServicePortKey, model::ServicePortRowPtr>>;
  // Takes the change over into rows_; `undo` gets what was there before.
  FlowRules Enter(const model::ServiceChange& change, Undo& undo);
  Result<size_t> Delete(const FlowRules& rules);
  // The record holds only what rows_ have.
  Result<void> Forget();
  std::set<FlowPlace> Places() const;  // of rows_

  sys::NfSocket socket_;
  sys::Rtnl rtnl_;
  FlowRecord record_;
  bool may_forget_ = true;  // the record may hold more than rows_ have
  std::map<model::ServicePortKey, model::ServicePortRowPtr> rows_;
};

}  // namespace holdfast::netproxy
