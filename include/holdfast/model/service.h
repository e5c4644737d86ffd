// SPDX-License-Identifier: Apache-2.0
// Service and EndpointSlice as the service proxy needs them: compact, without what no rule depends
// on. The agent turns Kubernetes' objects into these and drops the objects.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/model/proxy_table.h"

namespace holdfast::model {

struct ServiceName {
  std::string object_namespace;
  std::string name;
  auto operator<=>(const ServiceName&) const = default;
};

enum class ServiceType : uint8_t { kClusterIp, kNodePort, kLoadBalancer, kExternalName };

struct ServicePort {
  std::string name;  // "" where the service has one port without a name
  L4Protocol protocol = L4Protocol::kTcp;
  uint16_t port = 0;
  uint16_t node_port = 0;  // 0: none
  bool operator==(const ServicePort&) const = default;
};

struct LoadBalancerIp {
  IpAddress address;
  bool proxy = false;  // ipMode Proxy: packets come back with a node's address, nothing to answer
  bool operator==(const LoadBalancerIp&) const = default;
};

struct Service {
  ServiceName name;
  int64_t created = 0;  // of two that want the same address the smaller keeps it
  ServiceType type = ServiceType::kClusterIp;
  bool headless = false;
  std::string proxy_name;  // of service.kubernetes.io/service-proxy-name; not "": somebody else's
  std::vector<IpAddress> cluster_ips;  // at most one per family counts, the first
  std::vector<IpAddress> external_ips;
  std::vector<LoadBalancerIp> load_balancer_ips;
  std::vector<Cidr> source_ranges;
  bool has_source_ranges = false;  // some were given, even if none of them could be read
  std::vector<ServicePort> ports;
  std::chrono::seconds affinity{0};
  bool internal_local = false;  // internalTrafficPolicy: Local
  bool external_local = false;  // externalTrafficPolicy: Local
  uint16_t health_check_port = 0;
  bool operator==(const Service&) const = default;
};

// Bits of SliceEndpoint::flags.
enum EndpointFlag : uint8_t {
  kEndpointReady = 1,
  kEndpointServing = 2,
  kEndpointTerminating = 4,
  kEndpointHere = 8,          // runs on this node
  kEndpointNodeHints = 16,    // has hints that name nodes,
  kEndpointNodeHinted = 32,   // this one among them
  kEndpointZoneHints = 64,    // has hints that name zones,
  kEndpointZoneHinted = 128,  // this node's among them
};

struct SliceEndpoint {
  IpAddress address;
  uint8_t flags = 0;
  uint32_t origin = 0;  // the agent's number for pod and node, for explanations only
  bool operator==(const SliceEndpoint&) const = default;
};

struct SlicePort {
  std::string name;
  L4Protocol protocol = L4Protocol::kTcp;
  uint16_t port = 0;
  bool operator==(const SlicePort&) const = default;
};

struct EndpointSlice {
  ServiceName service;  // of kubernetes.io/service-name
  std::string name;     // unique in the namespace
  bool v6 = false;
  std::vector<SlicePort> ports;
  std::vector<SliceEndpoint> endpoints;
  bool operator==(const EndpointSlice&) const = default;
};

}  // namespace holdfast::model
