// SPDX-License-Identifier: Apache-2.0
// HostRules: the pod network's part of the packet rules: masquerade, source check, and the
// hostPorts of all pods. Rules come first, stale UDP and SCTP flows right after them. One thread at
// a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/proxy_table.h"
#include "holdfast/sys/nfnl.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/rules/back_end.h"

namespace holdfast::netproxy {

class HostRules {
 public:
  static Result<HostRules> Open(const std::string& table_name, const std::string& interface_prefix);

  // `pods`: of this node. For Ensure() or Set() to write.
  void SetRanges(std::vector<Cidr> pods, std::vector<Cidr> direct);

  // Takes a pod's rows over without telling the kernel; at start, before Ensure().
  void Adopt(const PodUid& uid, std::vector<model::HostPortRow> rows);
  struct Clashing {
    PodUid holder;
    model::HostPortRow row;  // of the asking pod
  };
  // The first of `rows` that another pod stands against.
  std::optional<Clashing> FindClash(const PodUid& uid,
                                    const std::vector<model::HostPortRow>& rows) const;
  // Makes `rows` all that the pod has. Flows of rows that went, and flows that went to the node
  // itself where rows came, are deleted; that they could not be (a kernel without conntrack
  // netlink) is a warning. `node` tells the node's addresses.
  Result<void> Set(const PodUid& uid, const std::vector<model::HostPortRow>& rows, sys::Rtnl& node,
                   std::vector<std::string>& warnings);
  // Puts back what is missing in the kernel. True when something was.
  Result<bool> Ensure();
  uint32_t port() const { return back_end_.port(); }
  // True when the kernel has the rules of all pods, no more and no less.
  Result<bool> AreInPlace();
  Result<void> Remove();

 private:
  HostRules(nft::PodRulesBackEnd back_end, sys::NfSocket conntrack)
      : back_end_(std::move(back_end)), conntrack_(std::move(conntrack)) {}
  Result<void> DeleteFlowsOf(const model::HostPortRow& gone);
  Result<void> DeleteFlowsToNode(const model::HostPortRow& added, sys::Rtnl& node);
  void Rebuild();

  nft::PodRulesBackEnd back_end_;
  sys::NfSocket conntrack_;
  std::map<PodUid, std::vector<model::HostPortRow>> pods_;
  model::ProxyTable table_;
};

}  // namespace holdfast::netproxy
