// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/request_metrics.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace holdfast::agent::api {

std::string CountedPath(std::string_view path) {
  constexpr std::string_view kKnown[] = {
      "attach", "checkpoint", "configz", "containerLogs", "debug", "exec",        "healthz",
      "logs",   "metrics",    "pods",    "portForward",   "run",   "runningpods", "stats"};
  if (path.starts_with('/')) path.remove_prefix(1);
  const std::string_view first = path.substr(0, path.find('/'));
  const bool known = std::find(std::begin(kKnown), std::end(kKnown), first) != std::end(kKnown);
  // These are few, and who scrapes what is worth telling apart.
  constexpr std::string_view kApart[] = {"metrics/cadvisor", "metrics/probes", "metrics/resource",
                                         "stats/summary"};
  if (std::find(std::begin(kApart), std::end(kApart), path) != std::end(kApart)) {
    return std::string(path);
  }
  return known ? std::string(first) : "others";
}

RequestMetrics::RequestMetrics()
    : requests_("kubelet_http_requests_total",
                "[ALPHA] Number of the http requests received since the server started"),
      durations_(std::make_shared<HistogramFamily>(
          "kubelet_http_requests_duration_seconds",
          "[ALPHA] Duration in seconds to serve http requests", DefaultBuckets())) {}

ExchangePtr RequestMetrics::Count(const ExchangePtr& exchange, std::string_view path,
                                  bool session) {
  const auto method = exchange->request().method_string();
  MetricLabels labels = {
      {"long_running", session ? "true" : "false"},
      {"method", exchange->request().method() == boost::beast::http::verb::unknown
                     ? "other"
                     : std::string(method.data(), method.size())},
      {"path", CountedPath(path)},
      {"server_type", "readwrite"}};
  requests_.Add(labels);
  if (session) return exchange;
  const auto begun = std::chrono::steady_clock::now();
  return {exchange.get(),
          [exchange, begun, labels = std::move(labels), durations = durations_](Exchange*) {
            const auto took = std::chrono::steady_clock::now() - begun;
            durations->Observe(std::chrono::duration<double>(took).count(), labels);
          }};
}

void RequestMetrics::Print(MetricsText& text) const {
  durations_->Print(text);
  requests_.Print(text);
}

}  // namespace holdfast::agent::api
