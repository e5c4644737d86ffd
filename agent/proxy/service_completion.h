// SPDX-License-Identifier: Apache-2.0
// Which addresses and ports a Service gets, given who has which. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

struct ServiceRanges {
  std::vector<Cidr> cluster_ips;  // at most one per family, the first is the default one
  uint16_t first_node_port = 30000;
  uint16_t last_node_port = 32767;
};

// What a service has, as it is written down.
struct ServiceRecord {
  int64_t created = 0;                         // seconds since 1970
  std::vector<std::string> cluster_ips;        // first family first
  std::map<std::string, uint16_t> node_ports;  // by "TCP/80" (protocol and port)
  uint16_t health_check_port = 0;
  bool operator==(const ServiceRecord&) const = default;
};

// What a service could not get, with the event's reason.
struct ServiceTrouble {
  std::string reason;  // "ClusterIPAlreadyAllocated", "PortAlreadyAllocated", …
  std::string message;
  bool operator==(const ServiceTrouble&) const = default;
};

// Who has which address and which port of the node.
class TakenAddresses {
 public:
  void Claim(const model::ServiceName& name, const ServiceRecord& record);
  void Release(const model::ServiceName& name);

  // Null when it is free or `self` has it.
  const model::ServiceName* OtherOwner(const IpAddress& address,
                                       const model::ServiceName& self) const;
  const model::ServiceName* OtherOwner(uint16_t port, const std::string& protocol,
                                       const model::ServiceName& self) const;
  bool IsFree(const IpAddress& address) const { return !addresses_.contains(address); }
  bool IsFree(uint16_t port) const;  // of every protocol

 private:
  using PortKey = std::pair<uint16_t, std::string>;
  struct Held {
    std::vector<IpAddress> addresses;
    std::vector<PortKey> ports;
  };
  std::map<IpAddress, model::ServiceName> addresses_;
  std::map<PortKey, model::ServiceName> ports_;
  std::map<model::ServiceName, Held> held_;
};

struct CompletedService {
  ServiceRecord record;
  std::vector<ServiceTrouble> troubles;
};

// Fills cluster IPs, families, node ports and the health check's port into `service`, taking out
// what it may not have. What `old` says is kept where the service still leaves it open. Which free
// address or port is taken follows from the service's name, so that it seldom meets another one.
CompletedService CompleteService(corev1::Service* service, const ServiceRecord& old,
                                 const ServiceRanges& ranges, const TakenAddresses& taken,
                                 const model::ServiceName& name);

}  // namespace holdfast::agent
