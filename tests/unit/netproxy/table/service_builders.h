// SPDX-License-Identifier: Apache-2.0
// Short forms for the tests of the service table.
//
//   10.96.0.0/16, fd00:96::/64   cluster IPs         172.16.0.0/16, fd00:172::/64   pods
//   192.0.2.0/24                 load balancer IPs   198.51.100.0/24                external IPs
//   10.0.0.1                     this node           10.0.1.0/24                    clients
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/model/service.h"
#include "netproxy/table/service_rows.h"

namespace holdfast::netproxy {

inline IpAddress Ip(const std::string& text) { return *IpAddress::Parse(text); }
inline Cidr Range(const std::string& text) { return *Cidr::Parse(text); }

inline constexpr uint8_t kReadyHere =
    model::kEndpointReady | model::kEndpointServing | model::kEndpointHere;
inline constexpr uint8_t kReady = model::kEndpointReady | model::kEndpointServing;
inline constexpr uint8_t kDraining = model::kEndpointServing | model::kEndpointTerminating;
inline constexpr uint8_t kDrainingHere = kDraining | model::kEndpointHere;

inline model::SliceEndpoint At(const std::string& ip, uint8_t flags = kReady) {
  return {Ip(ip), flags, 0};
}

inline model::EndpointSlice Slice(const std::string& name,
                                  std::vector<model::SliceEndpoint> endpoints,
                                  const std::string& service = "web", bool v6 = false) {
  model::EndpointSlice slice;
  slice.service = {"default", service};
  slice.name = name;
  slice.v6 = v6;
  slice.ports = {{"", model::L4Protocol::kTcp, 8080}};
  slice.endpoints = std::move(endpoints);
  return slice;
}

// ClusterIP, port 80 without a name.
inline model::Service ClusterIpService(const std::string& name = "web",
                                       const std::string& ip = "10.96.0.1") {
  model::Service service;
  service.name = {"default", name};
  service.cluster_ips = {Ip(ip)};
  service.ports = {{"", model::L4Protocol::kTcp, 80, 0}};
  return service;
}

// The same with a node port, a load balancer's IP and an external IP.
inline model::Service LoadBalancerService() {
  model::Service service = ClusterIpService();
  service.type = model::ServiceType::kLoadBalancer;
  service.ports[0].node_port = 30080;
  service.load_balancer_ips = {{Ip("192.0.2.7"), false}};
  service.external_ips = {Ip("198.51.100.7")};
  return service;
}

inline TableOptions NodeOptions() {
  model::ServiceSettings settings;
  settings.local.cidrs = {Range("172.16.0.0/16"), Range("fd00:172::/64")};
  TableOptions options;
  options.settings = std::make_shared<const model::ServiceSettings>(settings);
  options.node_addresses = {Ip("10.0.0.1")};
  options.external_ip_ranges = {Range("198.51.100.0/24")};
  return options;
}

// "172.16.0.1:8080 172.16.1.1:8080"
inline std::string Text(const std::vector<model::Endpoint>& endpoints) {
  std::string out;
  for (const model::Endpoint& e : endpoints) {
    if (!out.empty()) out += ' ';
    out += e.ip.ToString() + ":" + std::to_string(e.port);
  }
  return out;
}

}  // namespace holdfast::netproxy
