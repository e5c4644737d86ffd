// SPDX-License-Identifier: Apache-2.0
// RequestMetrics: requests so far, and how long they took. Thread-safe. Source: Kubernetes' kubelet/server/metrics.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/base/metric_family.h"
#include "agent/http/exchange.h"

namespace holdfast::agent::api {

// What a request counts as: its first part, "others" for one that nobody serves.
std::string CountedPath(std::string_view path);

class RequestMetrics {
 public:
  RequestMetrics();

  // Counts it. What is returned is the same exchange; its time is over when nobody holds that any more. A session,
  // which lasts as long as somebody wants, is only counted.
  ExchangePtr Count(const ExchangePtr& exchange, std::string_view path, bool session);
  void Print(MetricsText& text) const;

 private:
  CounterFamily requests_;
  const std::shared_ptr<HistogramFamily> durations_;  // an exchange may last longer than this
};

}  // namespace holdfast::agent::api
