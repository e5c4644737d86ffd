// SPDX-License-Identifier: Apache-2.0
// What the service proxy answers over HTTP, as kube-proxy does: /healthz and /livez for load
// balancers and whoever restarts it, /metrics, /proxyMode, /configz and /healthz for monitoring.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/proxy/health_server.h"
#include "agent/proxy/proxy_metrics.h"
#include "agent/proxy/service_driver.h"
#include "holdfast/base/clock.h"
#include "netproxy/announce/segment.h"

namespace holdfast::agent {

struct ProxyAnswers {
  const ServiceDriver& driver;  // borrowed, as the clock
  const Clock& clock;
  std::shared_ptr<ProxyMetrics> metrics;
  std::function<std::string()> mode;
  bool ipv4 = true;  // families that have rules
  bool ipv6 = true;
  // Of the addresses that are announced; may be empty.
  std::function<std::vector<netproxy::announce::AddressStatus>()> announced = nullptr;
  AgentConfig config = {};  // as it was read
};

// Other paths are 404.
netproxy::HttpReply AnswerHealth(const ProxyAnswers& answers, const std::string& path);
netproxy::HttpReply AnswerMetrics(const ProxyAnswers& answers, const std::string& path);

// Where there is an address, it is answered at.
HealthServer::Listeners ProxyListeners(const std::optional<model::Endpoint>& health,
                                       const std::optional<model::Endpoint>& metrics,
                                       ProxyAnswers answers);

}  // namespace holdfast::agent
