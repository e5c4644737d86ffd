// SPDX-License-Identifier: Apache-2.0
// Rows for the tests of the iptables back end.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "netproxy/services/iptables/compile_base.h"
#include "tests/support/ip.h"

namespace holdfast::netproxy::iptables {

using test_support::Ip;
inline Cidr Range(const std::string& text) { return *Cidr::Parse(text); }

inline constexpr uint8_t kAll = model::kFromPod | model::kFromNode | model::kFromOutside;
inline constexpr uint8_t kNotPods = model::kFromNode | model::kFromOutside;

inline std::shared_ptr<model::ServiceSettings> Settings() {
  auto settings = std::make_shared<model::ServiceSettings>();
  settings->local.cidrs = {Range("10.0.0.0/8")};
  settings->node_port_ranges = {Range("0.0.0.0/0"), Range("::/0")};
  return settings;
}

inline CompileContext Context() {
  CompileContext context;
  context.settings = Settings();
  return context;
}

inline std::vector<model::Endpoint> Endpoints(const std::vector<std::string>& ips,
                                              uint16_t port = 80) {
  std::vector<model::Endpoint> out;
  for (const std::string& ip : ips) out.push_back({Ip(ip), port});
  std::sort(out.begin(), out.end());
  return out;
}

inline model::Frontend ClusterIp(const std::string& ip, uint16_t port = 80) {
  model::Frontend out;
  out.address = Ip(ip);
  out.port = port;
  out.masquerade = kNotPods;
  return out;
}

// Of a Service with externalTrafficPolicy Cluster or, with `local`, Local.
inline model::Frontend External(model::FrontendKind kind, const std::string& ip, uint16_t port,
                                bool local = false) {
  model::Frontend out;
  out.kind = kind;
  out.address = Ip(ip);
  out.port = port;
  out.outside = local ? model::EndpointList::kLocal : model::EndpointList::kCluster;
  out.masquerade = local ? uint8_t{model::kFromNode} : kAll;
  return out;
}
inline model::Frontend NodePort(uint16_t port, bool local = false) {
  return External(model::FrontendKind::kNodePort, "0.0.0.0", port, local);
}

inline model::ServicePortRow Row(const std::string& name, std::vector<model::Frontend> frontends,
                                 const std::vector<std::string>& cluster,
                                 const std::vector<std::string>& local = {}) {
  model::ServicePortRow row;
  row.key = {name, frontends.front().address.v6};
  row.frontends = std::move(frontends);
  row.cluster = Endpoints(cluster);
  row.local = Endpoints(local);
  return row;
}

inline model::ServicePortRowPtr Share(model::ServicePortRow row) {
  return std::make_shared<const model::ServicePortRow>(std::move(row));
}

}  // namespace holdfast::netproxy::iptables
