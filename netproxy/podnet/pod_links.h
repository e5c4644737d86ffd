// SPDX-License-Identifier: Apache-2.0
// The node's ends of the pods' links: whose are there, whose are missing, what is routed to them. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/link_files.h"
#include "netproxy/podnet/record.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {

class PodLinks {
 public:
  // `node` outlives it; `home`: the network namespace that both work in; `prefix`: of the names of the node's ends.
  PodLinks(sys::Rtnl& node, NsFd home, std::string prefix)
      : node_(node), prefix_(std::move(prefix)) {
    sysctls_.home = std::move(home);
  }

  // As WirePod() (wiring.h); the prefix is filled in.
  Result<void> Wire(int netns, PodWiring pod, std::vector<std::string>& warnings);
  Result<bool> IsThere(const PodUid& uid);
  void Forget(const PodUid& uid) { numbers_.erase(uid); }

  // A line for each pod whose link somebody deleted, once, when it is missing at the second of two calls in a row: at the
  // first the pod may just be coming or going. Nothing of it is made anew while the pod runs (no kubelet does it either:
  // its connections are gone with the link).
  Result<std::vector<std::string>> TellLost(const std::map<PodUid, PodRecord>& records);

  // What is routed to links of ours, whether or not a record says so.
  Result<std::set<IpAddress>> RoutedAddresses();
  // Links of ours that belong to none of these pods.
  Result<std::vector<sys::Link>> OfNobody(const std::vector<PodUid>& live);

 private:
  sys::Rtnl& node_;
  NodeSysctls sysctls_;
  const std::string prefix_;
  std::map<PodUid, int> numbers_;  // of those that this agent has wired
  std::map<PodUid, int> missing_;  // how many calls in a row; no more than 3
};

}  // namespace holdfast::netproxy
