// SPDX-License-Identifier: Apache-2.0
// What Prometheus would say against a text of metrics: a strict reader of the text format 0.0.4 and promtool's lints,
// but for the names that Kubernetes and cAdvisor have given once and for all.
#pragma once

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test_support {

class MetricsReader {
 public:
  // "" or what is wrong first.
  std::string Fault(const std::string& text) {
    if (!text.empty() && text.back() != '\n') return "the last line does not end";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::string fault = line.starts_with('#') ? Comment(line) : Sample(line);
      if (!fault.empty()) return fault + ": " + line;
    }
    return EndFamily();
  }

 private:
  using Labels = std::map<std::string, std::string>;

  std::string Comment(const std::string& line) {
    static const std::regex kForm("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
    std::smatch match;
    if (!std::regex_match(line, match, kForm)) return "no HELP and no TYPE";
    if (match[1] == "HELP") {
      if (std::string fault = EndFamily(); !fault.empty()) return fault;
      family_ = match[2];
      if (!families_.insert(family_).second) return "the family was there before";
      type_.clear();
      return "";
    }
    if (match[2] != family_ || !type_.empty()) return "a TYPE that does not follow its HELP";
    type_ = match[3];
    if (type_ != "counter" && type_ != "gauge" && type_ != "histogram") return "no such type";
    const bool total = family_.ends_with("_total");
    // As cAdvisor and a kubelet call them.
    const bool old = family_ == "container_memory_failcnt" || family_ == "kubelet_evictions" ||
                     family_ == "kubelet_preemptions";
    if (type_ == "counter" && !total && !old) return "no _total";
    if (type_ != "counter" && total) return "_total, and not a counter";
    return "";
  }

  // NAME{LABEL="VALUE",…} VALUE [MILLISECONDS]
  std::string Sample(const std::string& line) {
    static const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*");
    std::smatch match;
    if (!std::regex_search(line, match, kName, std::regex_constants::match_continuous)) {
      return "no name";
    }
    const std::string name = match[0];
    const std::string suffix = name.starts_with(family_) ? name.substr(family_.size()) : "?";
    const bool of_histogram = suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
    if (type_.empty() || (type_ == "histogram" ? !of_histogram : !suffix.empty())) {
      return "not of the family before it";
    }
    size_t at = name.size();
    Labels labels;
    if (at < line.size() && line[at] == '{' && !ReadLabels(line, ++at, labels)) return "bad labels";
    static const std::regex kValue(" ([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[+-]Inf|NaN)( [0-9]+)?");
    const std::string rest = line.substr(at);
    if (!std::regex_match(rest, match, kValue)) return "bad value";
    if (!series_.emplace(name, labels).second) return "the series was there before";
    if (type_ == "histogram")
      return Part(suffix, std::move(labels), std::strtod(match[1].str().c_str(), nullptr));
    if (labels.contains("le")) return "le outside a histogram";
    return "";
  }

  static bool ReadLabels(const std::string& line, size_t& at, Labels& labels) {
    static const std::regex kOne("([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\\\n]|\\\\[\\\\\"n])*)\"");
    for (;;) {
      std::smatch match;
      if (!std::regex_search(line.begin() + static_cast<std::ptrdiff_t>(at), line.end(), match,
                             kOne, std::regex_constants::match_continuous)) {
        return false;
      }
      if (!labels.emplace(match[1], match[2]).second) return false;
      at += static_cast<size_t>(match.length());
      const char next = at < line.size() ? line[at++] : '\0';
      if (next == '}') return true;
      if (next != ',') return false;
    }
  }

  struct Shown {
    double bound = -INFINITY, below = 0;
    std::optional<double> all, count;
    bool sum = false;
  };

  std::string Part(const std::string& suffix, Labels labels, double value) {
    const std::string le = labels.contains("le") ? labels["le"] : "";
    labels.erase("le");
    Shown& shown = histograms_[labels];
    if (suffix != "_bucket") {
      if (!le.empty()) return "le outside a bucket";
      if (suffix == "_count") shown.count = value;
      shown.sum = shown.sum || suffix == "_sum";
      return "";
    }
    const double bound = le == "+Inf" ? INFINITY : std::strtod(le.c_str(), nullptr);
    if (le.empty() || bound <= shown.bound || value < shown.below)
      return "buckets that do not grow";
    shown.bound = bound;
    shown.below = value;
    if (le == "+Inf") shown.all = value;
    return "";
  }

  std::string EndFamily() {
    for (const auto& [labels, shown] : std::exchange(histograms_, {})) {
      if (!shown.sum || !shown.all || shown.count != shown.all)
        return family_ + ": not a whole histogram";
    }
    return family_.empty() || !type_.empty() ? "" : family_ + ": no TYPE";
  }

  std::string family_, type_;
  std::set<std::string> families_;
  std::set<std::pair<std::string, Labels>> series_;
  std::map<Labels, Shown> histograms_;  // of the family
};

inline std::string MetricsFault(const std::string& text) { return MetricsReader().Fault(text); }

}  // namespace holdfast::test_support
