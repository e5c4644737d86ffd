// SPDX-License-Identifier: Apache-2.0
// The answers at a Service's healthCheckNodePort and at the proxy's own /healthz and /livez, in
// kube-proxy's words (feature map 4.1.9, 4.2.10). Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/model/service.h"

namespace holdfast::netproxy {

struct HttpReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// 200 while this node has a ready endpoint and the proxy is healthy, else 503, so that a load
// balancer sends its packets to nodes that have somebody to answer them.
HttpReply ServiceHealthReply(const model::ServiceName& service, size_t local_endpoints,
                             bool proxy_healthy);

struct ProxyState {
  bool healthy = true;        // no change has waited for too long
  bool node_eligible = true;  // the node is neither being deleted nor tainted for it
  WallTime last_updated;      // of the last change that the kernel took; zero before the first one
  WallTime now;
  bool ipv4 = true;  // families that have rules
  bool ipv6 = false;
};

// For load balancers: unhealthy too when the node is about to go.
HttpReply HealthzReply(const ProxyState& state);
// For whoever restarts the proxy: its own health only.
HttpReply LivezReply(const ProxyState& state);

}  // namespace holdfast::netproxy
