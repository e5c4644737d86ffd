// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/usage.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "agent/cli/table.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using Stats = v1::GetStatsResponse;

constexpr uint64_t kNanosPerMilli = 1'000'000;

// 0 where no time has passed, or a counter went back.
uint64_t NanosPerSecond(uint64_t used, int64_t nanos) {
  return nanos <= 0
             ? 0
             : static_cast<uint64_t>(static_cast<double>(used) * 1e9 / static_cast<double>(nanos));
}

Usage Between(const Stats::Usage& before, const Stats::Usage& now) {
  const uint64_t used = now.cpu_nanos() - std::min(before.cpu_nanos(), now.cpu_nanos());
  return {NanosPerSecond(used, now.time_unix_nanos() - before.time_unix_nanos()),
          now.memory_working_set_bytes(), now.swap_bytes()};
}

Usage SinceStart(const Stats::Container& container) {
  Stats::Usage start;
  start.set_time_unix_nanos(container.started_unix_nanos());
  return Between(start, container.usage());
}

// As a quantity of cores is rounded: up.
std::string Cores(const Usage& usage) {
  return StrCat((usage.cpu_nanos + kNanosPerMilli - 1) / kNanosPerMilli, "m");
}
std::string Mebibytes(uint64_t bytes) { return StrCat(bytes >> 20, "Mi"); }

constexpr char kUnknown[] = "<unknown>";

// Brings `rows` into kubectl's order: the largest first, or by name.
template <class Row, class UsageOf, class NameOf>
void Sort(std::vector<Row>& rows, UsageOrder order, UsageOf usage_of, NameOf name_of) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (order == UsageOrder::kCpu) return usage_of(a).cpu_nanos > usage_of(b).cpu_nanos;
    if (order == UsageOrder::kMemory) return usage_of(a).memory_bytes > usage_of(b).memory_bytes;
    return name_of(a) < name_of(b);
  });
}

void SortPods(std::vector<PodUsage>& pods, UsageOrder order) {
  Sort(
      pods, order, [](const PodUsage& pod) { return pod.Sum(); },
      [](const PodUsage& pod) { return std::tie(pod.name_space, pod.name); });
  for (PodUsage& pod : pods) {
    Sort(
        pod.containers, order, [](const ContainerUsage& one) { return one.usage; },
        [](const ContainerUsage& one) -> const std::string& { return one.name; });
  }
}

class Rows {
 public:
  explicit Rows(const UsageStyle& style) : style_(style), table_(Header(style)) {}

  void Add(const PodUsage& pod) {
    if (!style_.containers) return AddRow(pod.name_space, pod.name, "", pod.Sum());
    for (const ContainerUsage& one : pod.containers) {
      AddRow(pod.name_space, pod.name, one.name, one.usage);
    }
  }

  void AddSum(const std::vector<PodUsage>& pods) {
    PodUsage all;
    for (const PodUsage& pod : pods) all.containers.push_back({pod.name, pod.Sum()});
    const size_t names = Header(style_).size() - (style_.swap ? 3 : 2);
    std::vector<std::string> line(names), sum(names);
    line.resize(Header(style_).size(), "________");
    AddFigures(all.Sum(), sum);
    table_.AddRow(std::move(line));
    table_.AddRow(std::move(sum));
  }

  std::string Render() { return table_.Render(style_.with_header); }

 private:
  static std::vector<std::string> Header(const UsageStyle& style) {
    std::vector<std::string> header;
    if (style.with_namespace) header.emplace_back("NAMESPACE");
    if (style.containers) header.emplace_back("POD");
    header.insert(header.end(), {"NAME", "CPU(cores)", "MEMORY(bytes)"});
    if (style.swap) header.emplace_back("SWAP(bytes)");
    return header;
  }

  void AddFigures(const Usage& usage, std::vector<std::string>& row) const {
    row.insert(row.end(), {Cores(usage), Mebibytes(usage.memory_bytes)});
    if (style_.swap) row.push_back(Mebibytes(usage.swap_bytes));
  }

  void AddRow(const std::string& name_space, const std::string& pod, const std::string& container,
              const Usage& usage) {
    std::vector<std::string> row;
    if (style_.with_namespace) row.push_back(name_space);
    row.push_back(pod);
    if (style_.containers) row.push_back(container);
    AddFigures(usage, row);
    table_.AddRow(std::move(row));
  }

  const UsageStyle& style_;
  Table table_;
};

// Rounded down, as kubectl does; of nothing, nothing is used.
std::string Percent(double used, double limit) {
  return StrCat(static_cast<int64_t>(limit > 0 ? used / limit * 100 : 0), "%");
}

}  // namespace

Usage PodUsage::Sum() const {
  Usage sum;
  for (const ContainerUsage& one : containers) {
    sum.cpu_nanos += one.usage.cpu_nanos;
    sum.memory_bytes += one.usage.memory_bytes;
    sum.swap_bytes += one.usage.swap_bytes;
  }
  return sum;
}

std::vector<PodUsage> UsageOfPods(const Stats& before, const Stats& now) {
  std::map<std::string, const Stats::Usage*> earlier;  // by container ID
  for (const auto& pod : before.pods()) {
    for (const auto& one : pod.containers()) earlier.emplace(one.id(), &one.usage());
  }
  std::vector<PodUsage> pods;
  for (const auto& pod : now.pods()) {
    PodUsage usage{pod.namespace_(), pod.name(), {}};
    for (const auto& one : pod.containers()) {
      const auto known = earlier.find(one.id());
      usage.containers.push_back({one.name(), known == earlier.end()
                                                  ? SinceStart(one)
                                                  : Between(*known->second, one.usage())});
    }
    if (!usage.containers.empty()) pods.push_back(std::move(usage));
  }
  return pods;
}

Usage UsageOfNode(const Stats& before, const Stats& now) {
  return Between(before.node(), now.node());
}

std::string UsageTable(std::vector<PodUsage> pods, const UsageStyle& style) {
  if (pods.empty()) return "";
  SortPods(pods, style.order);
  Rows rows(style);
  for (const PodUsage& pod : pods) rows.Add(pod);
  if (style.sum) rows.AddSum(pods);
  return rows.Render();
}

std::string NodeUsageTable(const std::string& node, const Usage& usage, const NodeLimits& limits,
                           const UsageStyle& style) {
  std::vector<std::string> header = {"NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"};
  const uint64_t milli = (usage.cpu_nanos + kNanosPerMilli - 1) / kNanosPerMilli;
  std::vector<std::string> row = {
      node, Cores(usage),
      Percent(static_cast<double>(milli), static_cast<double>(limits.cpu.Milli())),
      Mebibytes(usage.memory_bytes),
      Percent(static_cast<double>(usage.memory_bytes), static_cast<double>(limits.memory.Units()))};
  if (style.swap) {
    header.insert(header.end(), {"SWAP(bytes)", "SWAP(%)"});
    const auto& swap = limits.swap_bytes;
    row.push_back(swap ? Mebibytes(usage.swap_bytes) : kUnknown);
    row.push_back(swap ? Percent(static_cast<double>(usage.swap_bytes), static_cast<double>(*swap))
                       : kUnknown);
  }
  Table table(std::move(header));
  table.AddRow(std::move(row));
  return table.Render(style.with_header);
}

}  // namespace holdfast::agent::cli
