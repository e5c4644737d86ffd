// SPDX-License-Identifier: Apache-2.0
// LeaseKeeper: reads, takes, renews and gives back the Leases of announced addresses at the API
// server, from a thread of its own: whoever answers for an address only asks AddressLease, so a
// request that hangs delays no answer and prolongs none. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "netproxy/announce/address_lease.h"

namespace holdfast::agent {

struct LeaseKeeperOptions {
  KubeConfig server;
  std::string identity;  // spec.holderIdentity; this process's alone
  // Trouble with the API server, and its end; from the thread.
  std::function<void(const std::string& line)> log;
};

class LeaseKeeper {
 public:
  // Requests come from the calling thread's network namespace. `clock` is borrowed.
  static Result<std::unique_ptr<LeaseKeeper>> Start(LeaseKeeperOptions options, const Clock& clock);
  // Gives back what is held, as far as the API server answers within a second. Nobody may answer
  // for an address any more.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Kept while somebody has it, and until it is given back.
  std::shared_ptr<netproxy::announce::AddressLease> LeaseOf(const IpAddress& address);

 private:
  class Impl;
  explicit LeaseKeeper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The node's name and something random.
Result<std::string> NewLeaseIdentity(const std::string& node_name);

}  // namespace holdfast::agent
