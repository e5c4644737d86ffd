// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/proxy_answers.h"

#include <utility>

#include "agent/proxy/configz.h"
#include "agent/proxy/service_health.h"
#include "netproxy/health/replies.h"

namespace holdfast::agent {
namespace {

netproxy::HttpReply Plain(int status, std::string body, const char* type) {
  return {status, {{"Content-Type", type}, {"X-Content-Type-Options", "nosniff"}}, std::move(body)};
}

netproxy::HttpReply UnknownPath() {
  return Plain(404, "404 page not found\n", "text/plain; charset=utf-8");
}

// No control plane yet: nobody can delete or taint the node.
netproxy::ProxyState StateOf(const ProxyAnswers& answers) {
  const ServiceProxyHealth health = answers.driver.Health();
  netproxy::ProxyState state;
  state.healthy = IsHealthy(health, answers.clock.Boot());
  state.last_updated = health.last_updated;
  state.now = answers.clock.Wall();
  state.ipv4 = answers.ipv4;
  state.ipv6 = answers.ipv6;
  return state;
}

std::string MetricsOf(const ProxyAnswers& answers) {
  ProxyMetrics::Now now;
  now.mode = answers.mode();
  if (answers.ipv4) now.families.emplace_back("IPv4");
  if (answers.ipv6) now.families.emplace_back("IPv6");
  answers.driver.Describe(now);
  if (answers.announced) now.announced = answers.announced();
  return answers.metrics->Text(now);
}

}  // namespace

netproxy::HttpReply AnswerHealth(const ProxyAnswers& answers, const std::string& path) {
  if (path == "/healthz") {
    netproxy::HttpReply reply = netproxy::HealthzReply(StateOf(answers));
    answers.metrics->NoteHealthz(reply.status);
    return reply;
  }
  if (path == "/livez") {
    netproxy::HttpReply reply = netproxy::LivezReply(StateOf(answers));
    answers.metrics->NoteLivez(reply.status);
    return reply;
  }
  return UnknownPath();
}

netproxy::HttpReply AnswerMetrics(const ProxyAnswers& answers, const std::string& path) {
  if (path == "/metrics") {
    return Plain(200, MetricsOf(answers), "text/plain; version=0.0.4; charset=utf-8");
  }
  if (path == "/proxyMode") return Plain(200, answers.mode(), "text/plain; charset=utf-8");
  if (path == "/configz") {
    return Plain(200, ConfigzText(answers.config, answers.mode()), "application/json");
  }
  if (path == "/healthz") return Plain(200, "ok", "text/plain; charset=utf-8");
  return UnknownPath();
}

HealthServer::Listeners ProxyListeners(const std::optional<model::Endpoint>& health,
                                       const std::optional<model::Endpoint>& metrics,
                                       ProxyAnswers answers) {
  HealthServer::Listeners listeners;
  const auto shared = std::make_shared<const ProxyAnswers>(std::move(answers));
  if (health) {
    listeners[*health] = [shared](const std::string& path) { return AnswerHealth(*shared, path); };
  }
  if (metrics) {
    listeners[*metrics] = [shared](const std::string& path) {
      return AnswerMetrics(*shared, path);
    };
  }
  return listeners;
}

}  // namespace holdfast::agent
