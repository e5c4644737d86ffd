// SPDX-License-Identifier: Apache-2.0
// WantedAddresses: which addresses outside clients may be sent to this node for, out of the rows
// that the kernel has: load balancer IPs and external IPs with somebody here to serve them. With
// externalTrafficPolicy Local that is an endpoint on this node, else anybody. Costs what changed.
// Pure, single-thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/model/service_table.h"

namespace holdfast::netproxy::announce {

class WantedAddresses {
 public:
  // What a back end took of `change`. False: addresses() is what it was.
  bool Apply(const model::ServiceChange& change, const ServiceApplied& applied);
  std::set<IpAddress> addresses() const;
  // Whose it is: names of ServicePortKeys.
  std::set<std::string> UsersOf(const IpAddress& address) const;

 private:
  // True when an address came or went by it.
  bool Set(const model::ServicePortKey& key, std::vector<IpAddress> addresses);
  bool Release(const std::vector<IpAddress>& addresses);

  std::map<model::ServicePortKey, std::vector<IpAddress>> rows_;
  std::map<IpAddress, size_t> users_;  // how often it is in rows_
};

}  // namespace holdfast::netproxy::announce
