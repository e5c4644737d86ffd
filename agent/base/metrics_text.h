// SPDX-License-Identifier: Apache-2.0
// Metrics in Prometheus' text format, version 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/clock.h"

namespace holdfast::agent {

// Counts of observations per bucket. Single-thread.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  // the last one: above all
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;  // upper ones, inclusive, ascending
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricsText {
 public:
  // What follows belongs to this name. `type`: "counter", "gauge", "histogram".
  void Begin(const std::string& name, const std::string& help, const std::string& type);
  void Add(double value, const MetricLabels& labels = {});
  // As it was at `at`; a scrape may come later.
  void AddAt(double value, const MetricLabels& labels, WallTime at);
  void Add(const Histogram& histogram, const MetricLabels& labels = {});

  const std::string& text() const { return text_; }

 private:
  void Line(const std::string& suffix, const MetricLabels& labels, const std::string& value);

  std::string name_;
  std::string text_;
};

}  // namespace holdfast::agent
