// SPDX-License-Identifier: Apache-2.0
// Rows for the tests of the IPVS back end.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "netproxy/services/ipvs/book.h"
#include "tests/support/ip.h"

namespace holdfast::netproxy::ipvs {

using test_support::Ip;
inline constexpr uint8_t kAll = model::kFromPod | model::kFromNode | model::kFromOutside;

inline model::Frontend At(model::FrontendKind kind, const std::string& ip, uint16_t port,
                          uint8_t masquerade, bool outside_local = false) {
  model::Frontend out;
  out.kind = kind;
  out.address = Ip(ip);
  out.port = port;
  out.masquerade = masquerade;
  if (outside_local) out.outside = model::EndpointList::kLocal;
  return out;
}
inline model::Frontend ClusterIp(const std::string& ip) {
  return At(model::FrontendKind::kClusterIp, ip, 80, model::kFromNode | model::kFromOutside);
}
inline model::Frontend NodePort(uint16_t port, bool local = false) {
  return At(model::FrontendKind::kNodePort, "0.0.0.0", port,
            local ? uint8_t{model::kFromNode} : kAll, local);
}
inline model::Frontend Balancer(const std::string& ip, bool local = false) {
  return At(model::FrontendKind::kLoadBalancerIp, ip, 80, local ? uint8_t{model::kFromNode} : kAll,
            local);
}

inline std::vector<model::Endpoint> Endpoints(const std::vector<std::string>& ips) {
  std::vector<model::Endpoint> out;
  for (const std::string& ip : ips) out.push_back({Ip(ip), 8080});
  std::sort(out.begin(), out.end());
  return out;
}

inline std::shared_ptr<model::ServicePortRow> Row(const std::string& name,
                                                  std::vector<model::Frontend> frontends,
                                                  const std::vector<std::string>& cluster,
                                                  const std::vector<std::string>& local = {}) {
  auto row = std::make_shared<model::ServicePortRow>();
  row->key = {name, frontends.front().address.v6};
  row->frontends = std::move(frontends);
  row->cluster = Endpoints(cluster);
  row->local = Endpoints(local);
  return row;
}

inline CompileContext Context() {
  CompileContext context;
  context.config = {"rr", kOwnFlag, 0};
  context.node_addresses = {Ip("192.0.2.2")};
  return context;
}

// "set address proto port[ -> mark]" of every element.
inline std::vector<std::string> Names(const std::vector<RuleElement>& elements) {
  std::vector<std::string> out;
  for (const RuleElement& e : elements) {
    std::string text = NameOf(e.set) + " " +
                       nft::ElementToString(nft::Family::kIp, FormOf(e.set), {e.key, e.value, ""});
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace holdfast::netproxy::ipvs
