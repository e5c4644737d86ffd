// SPDX-License-Identifier: Apache-2.0
#include "netproxy/health/replies.h"

#include <cstdio>
#include <ctime>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy {
namespace {

HttpReply Json(bool ok, std::string body) {
  HttpReply reply;
  reply.status = ok ? 200 : 503;
  reply.headers = {{"Content-Type", "application/json"}, {"X-Content-Type-Options", "nosniff"}};
  reply.body = std::move(body);
  return reply;
}

const char* Bool(bool value) { return value ? "true" : "false"; }

// RFC 3339 with nanoseconds, UTC, in quotes.
std::string Quoted(WallTime time) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t total = time.since_epoch.count();
  const auto seconds = static_cast<time_t>(total / kSecond);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  char text[64];
  std::snprintf(text, sizeof text, "\"%s.%09dZ\"", date, static_cast<int>(total % kSecond));
  return text;
}

// Who is healthy is up to date, whenever the last change was.
WallTime Updated(const ProxyState& state, bool ok) { return ok ? state.now : state.last_updated; }

}  // namespace

// Namespace and name are DNS labels: nothing in them needs escaping.
HttpReply ServiceHealthReply(const model::ServiceName& service, size_t local_endpoints,
                             bool proxy_healthy) {
  HttpReply reply =
      Json(local_endpoints != 0 && proxy_healthy,
           StrCat("{\"service\":{\"namespace\":\"", service.object_namespace, "\",\"name\":\"",
                  service.name, "\"},\"localEndpoints\":", local_endpoints,
                  ",\"serviceProxyHealthy\":", Bool(proxy_healthy), "}\n"));
  reply.headers.emplace_back("X-Load-Balancing-Endpoint-Weight", std::to_string(local_endpoints));
  return reply;
}

HttpReply HealthzReply(const ProxyState& state) {
  const bool ok = state.healthy && state.node_eligible;
  return Json(ok, StrCat("{\"lastUpdated\": ", Quoted(Updated(state, ok)),
                         ",\"currentTime\": ", Quoted(state.now),
                         ", \"nodeEligible\": ", Bool(state.node_eligible), "}\n"));
}

HttpReply LivezReply(const ProxyState& state) {
  return Json(state.healthy, StrCat("{\"lastUpdated\": ", Quoted(Updated(state, state.healthy)),
                                    ",\"currentTime\": ", Quoted(state.now), "}\n"));
}

}  // namespace holdfast::netproxy
