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

// RFC 3339 in UTC, in quotes, with as many digits of a second as it needs.
std::string Quoted(WallTime time) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t total = time.since_epoch.count();
  const auto seconds = static_cast<time_t>(total / kSecond);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  char text[64];
  std::snprintf(text, sizeof text, ".%09d", static_cast<int>(total % kSecond));
  std::string fraction = text;
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (fraction == ".") fraction.clear();
  return StrCat("\"", date, fraction, "Z\"");
}

// Who is healthy is up to date, whenever the last change was.
WallTime Updated(const ProxyState& state, bool ok) { return ok ? state.now : state.last_updated; }

// `eligible`: "" leaves it out. Families show once they have been written.
std::string Body(const ProxyState& state, bool ok, const std::string& eligible) {
  std::string status;
  const auto family = [&](const char* name, bool there) {
    if (!there || state.last_updated.IsZero()) return;
    status += StrCat(status.empty() ? ",\"status\":{" : ",", "\"", name,
                     "\":{\"lastUpdated\":", Quoted(state.last_updated),
                     ",\"healthy\":", Bool(state.healthy), "}");
  };
  family("IPv4", state.ipv4);
  family("IPv6", state.ipv6);
  if (!status.empty()) status += "}";
  return StrCat("{\"lastUpdated\":", Quoted(Updated(state, ok)),
                ",\"currentTime\":", Quoted(state.now), eligible,
                ",\"healthy\":", Bool(state.healthy), status, "}");
}

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
  return Json(ok, Body(state, ok, StrCat(",\"nodeEligible\":", Bool(state.node_eligible))));
}

HttpReply LivezReply(const ProxyState& state) {
  return Json(state.healthy, Body(state, state.healthy, ""));
}

}  // namespace holdfast::netproxy
