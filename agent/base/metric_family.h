// SPDX-License-Identifier: Apache-2.0
// Counters and histograms of one name, one for each set of labels, made at the first use. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/metrics_text.h"

namespace holdfast::agent {

// Prometheus' own: 5 ms to 10 s.
std::vector<double> DefaultBuckets();
// `count` bounds, each `factor` times the one before.
std::vector<double> ExponentialBuckets(double first, double factor, int count);

class CounterFamily {
 public:
  CounterFamily(std::string name, std::string help)
      : name_(std::move(name)), help_(std::move(help)) {}

  void Add(const MetricLabels& labels);
  // Those of which this label has this value.
  void Forget(std::string_view label, std::string_view value);
  // Nothing as long as there is none.
  void Print(MetricsText& text) const;

 private:
  const std::string name_, help_;
  mutable std::mutex mutex_;
  std::map<MetricLabels, uint64_t> counts_;
};

class HistogramFamily {
 public:
  HistogramFamily(std::string name, std::string help, std::vector<double> bounds)
      : name_(std::move(name)), help_(std::move(help)), bounds_(std::move(bounds)) {}

  void Observe(double value, const MetricLabels& labels);
  void Forget(const MetricLabels& labels);
  // Nothing as long as there is none.
  void Print(MetricsText& text) const;

 private:
  const std::string name_, help_;
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::map<MetricLabels, Histogram> histograms_;
};

}  // namespace holdfast::agent
