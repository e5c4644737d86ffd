// SPDX-License-Identifier: Apache-2.0
#include "agent/base/metric_family.h"

#include <algorithm>

namespace holdfast::agent {

std::vector<double> DefaultBuckets() { return {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}; }

std::vector<double> ExponentialBuckets(double first, double factor, int count) {
  std::vector<double> bounds;
  for (int i = 0; i < count; ++i, first *= factor) bounds.push_back(first);
  return bounds;
}

void CounterFamily::Add(const MetricLabels& labels) {
  const std::lock_guard lock(mutex_);
  ++counts_[labels];
}

void CounterFamily::Forget(std::string_view label, std::string_view value) {
  const std::lock_guard lock(mutex_);
  std::erase_if(counts_, [&](const auto& entry) {
    return std::any_of(entry.first.begin(), entry.first.end(),
                       [&](const auto& one) { return one.first == label && one.second == value; });
  });
}

void CounterFamily::Print(MetricsText& text) const {
  const std::lock_guard lock(mutex_);
  if (counts_.empty()) return;
  text.Begin(name_, help_, "counter");
  for (const auto& [labels, count] : counts_) text.Add(static_cast<double>(count), labels);
}

void HistogramFamily::Observe(double value, const MetricLabels& labels) {
  const std::lock_guard lock(mutex_);
  histograms_.try_emplace(labels, bounds_).first->second.Observe(value);
}

void HistogramFamily::Forget(const MetricLabels& labels) {
  const std::lock_guard lock(mutex_);
  histograms_.erase(labels);
}

void HistogramFamily::Print(MetricsText& text) const {
  const std::lock_guard lock(mutex_);
  if (histograms_.empty()) return;
  text.Begin(name_, help_, "histogram");
  for (const auto& [labels, histogram] : histograms_) text.Add(histogram, labels);
}

}  // namespace holdfast::agent
