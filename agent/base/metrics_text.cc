// SPDX-License-Identifier: Apache-2.0
#include "agent/base/metrics_text.h"

#include <algorithm>
#include <charconv>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// The shortest text that is this number.
std::string Number(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Label values hold no more than what needs these three.
std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

void MetricsText::Begin(const std::string& name, const std::string& help, const std::string& type) {
  name_ = name;
  text_ += StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void MetricsText::Add(double value, const MetricLabels& labels) { Line("", labels, Number(value)); }

void MetricsText::AddAt(double value, const MetricLabels& labels, WallTime at) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(at.since_epoch);
  Line("", labels, StrCat(Number(value), " ", millis.count()));
}

void MetricsText::Add(const Histogram& histogram, const MetricLabels& labels) {
  uint64_t all = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    all += histogram.counts()[i];
    MetricLabels with = labels;
    with.emplace_back("le", i < histogram.bounds().size() ? Number(histogram.bounds()[i]) : "+Inf");
    Line("_bucket", with, std::to_string(all));
  }
  Line("_sum", labels, Number(histogram.sum()));
  Line("_count", labels, std::to_string(all));
}

void MetricsText::Line(const std::string& suffix, const MetricLabels& labels,
                       const std::string& value) {
  text_ += name_ + suffix;
  for (size_t i = 0; i < labels.size(); ++i) {
    text_ += StrCat(i == 0 ? "{" : ",", labels[i].first, "=\"", Escaped(labels[i].second), "\"");
  }
  text_ += StrCat(labels.empty() ? " " : "} ", value, "\n");
}

}  // namespace holdfast::agent
