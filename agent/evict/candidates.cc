// SPDX-License-Identifier: Apache-2.0
#include "agent/evict/candidates.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kMemory[] = "memory";
constexpr char kStorage[] = "ephemeral-storage";

uint64_t RequestOf(const kube::ResourceList& requests, std::string_view resource) {
  const auto request = requests.find(resource);
  if (request == requests.end() || request->second.IsNegative()) return 0;
  return static_cast<uint64_t>(request->second.Units());
}

uint64_t OnDisk(const std::optional<FsUsage>& fs, bool inodes) {
  if (!fs) return 0;
  return inodes ? fs->inodes_used : fs->used;
}

uint64_t OnDisk(const PodStats& stats, bool inodes) {
  uint64_t sum = 0;
  for (const ContainerStats& one : stats.containers) {
    sum += OnDisk(one.root, inodes) + OnDisk(one.logs, inodes);
  }
  for (const VolumeStats& one : stats.volumes) {
    if (one.claim.empty()) sum += inodes ? one.fs.inodes_used : one.fs.used;
  }
  return sum;
}

std::optional<uint64_t> UsedOf(const PodStats& stats, PressureSignal signal) {
  switch (signal) {
    case PressureSignal::kMemory:
    case PressureSignal::kPodsMemory:
      return stats.usage ? std::optional(stats.usage->used.memory.working_set) : std::nullopt;
    case PressureSignal::kPids:
      return stats.usage ? std::optional(stats.usage->used.processes) : std::nullopt;
    case PressureSignal::kNodeInodes:
    case PressureSignal::kImageInodes:
      return OnDisk(stats, true);
    case PressureSignal::kNodeBytes:
    case PressureSignal::kImageBytes:
      return OnDisk(stats, false);
  }
  return std::nullopt;
}

int64_t Above(const Candidate& candidate) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / 2;
  return static_cast<int64_t>(std::min(candidate.used.value_or(0), kMost)) -
         static_cast<int64_t>(std::min(candidate.requested, kMost));
}

bool GoesBefore(const Candidate& a, const Candidate& b, bool asked_for) {
  const auto key = [&](const Candidate& c) {
    return std::tuple(c.used.has_value(), asked_for && Above(c) <= 0, c.pod->spec().priority(),
                      -Above(c));
  };
  return key(a) < key(b);
}

std::string Text(uint64_t amount, kube::Amount::Format format) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return kube::Amount::FromUnits(static_cast<int64_t>(std::min(amount, kMost)), format).ToString();
}

bool IsInBytes(PressureSignal signal) {
  const std::string_view resource = ResourceOf(signal);
  return resource == kMemory || resource == kStorage;
}

// What a container has and is told of; nullopt: nothing is said of it.
std::optional<uint64_t> UsedOf(const ContainerStats& stats, std::string_view resource) {
  if (resource == kMemory) return stats.usage.used.memory.working_set;
  if (resource == kStorage && stats.root && stats.logs) {
    return stats.root->used + stats.logs->used;
  }
  return std::nullopt;
}

const core::Container* Find(const core::PodSpec& spec, const std::string& name) {
  for (const auto* list : {&spec.containers(), &spec.initcontainers()}) {
    const auto found = std::ranges::find(*list, name, &core::Container::name);
    if (found != list->end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::string_view ResourceOf(PressureSignal signal) {
  switch (signal) {
    case PressureSignal::kMemory:
    case PressureSignal::kPodsMemory:
      return kMemory;
    case PressureSignal::kNodeBytes:
    case PressureSignal::kImageBytes:
      return kStorage;
    case PressureSignal::kNodeInodes:
    case PressureSignal::kImageInodes:
      return "inodes";
    case PressureSignal::kPids:
      return "pids";
  }
  return "";
}

std::vector<Candidate> RankForEviction(const std::vector<PodPtr>& pods, const NodeSample& sample,
                                       PressureSignal signal) {
  std::vector<Candidate> candidates;
  for (const PodPtr& pod : pods) {
    if (kube::IsTerminalPhase(pod->status().phase())) continue;
    Candidate candidate{.pod = pod};
    candidate.requested = RequestOf(kube::PodRequests(pod->spec()), ResourceOf(signal));
    const auto stats = std::ranges::find(sample.pods, pod->metadata().uid(), &PodStats::uid);
    if (stats != sample.pods.end()) {
      candidate.used = UsedOf(*stats, signal);
      candidate.containers = stats->containers;
    }
    candidates.push_back(std::move(candidate));
  }
  const bool asked_for = signal != PressureSignal::kPids;
  std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
    return GoesBefore(a, b, asked_for);
  });
  return candidates;
}

Eviction EvictionFor(const Candidate& candidate, const Shortage& shortage) {
  using Format = kube::Amount::Format;
  const PressureSignal signal = shortage.threshold.signal;
  const std::string resource(ResourceOf(signal));
  const Format format = IsInBytes(signal) ? Format::kBinarySi : Format::kDecimalSi;
  const uint64_t least = shortage.threshold.least.Of(shortage.room.total);
  std::string why = StrCat("The node was low on resource: ", resource,
                           ". Threshold quantity: ", Text(least, format),
                           ", available: ", Text(shortage.room.left, format), ". ");
  const std::string counts_as(NameOf(signal));
  if (!candidate.used) return {.why = std::move(why), .signal = counts_as, .disruption = true};
  std::map<std::string, std::string> annotations;
  const auto& pod_requests = candidate.pod->spec().resources().requests();
  if (const auto request = pod_requests.find(kMemory);
      resource == kMemory && request != pod_requests.end()) {
    const std::string amount = Text(*candidate.used, format);
    const std::string& name = candidate.pod->metadata().name();
    why += StrCat("Pod ", name, " was using ", amount, ", request is ", request->second.string(),
                  ", has larger consumption of ", resource, ". ");
    annotations = {{"offending_pod", name}, {"offending_pod_usage", amount}};
  }
  std::string names, amounts;
  for (const ContainerStats& one : candidate.containers) {
    const core::Container* const container = Find(candidate.pod->spec(), one.name);
    const auto used = UsedOf(one, resource);
    if (container == nullptr || !used) continue;
    const kube::ResourceList requests = kube::Requests(*container);
    if (*used <= RequestOf(requests, resource)) continue;
    const auto request = requests.find(resource);
    const std::string amount = Text(*used, format);
    why += StrCat("Container ", one.name, " was using ", amount, ", request is ",
                  request == requests.end() ? "0" : request->second.ToString(),
                  ", has larger consumption of ", resource, ". ");
    names += StrCat(names.empty() ? "" : ",", one.name);
    amounts += StrCat(amounts.empty() ? "" : ",", amount);
  }
  annotations.insert({{"offending_containers", names},
                      {"offending_containers_usage", amounts},
                      {"starved_resource", resource}});
  return {.why = std::move(why),
          .signal = counts_as,
          .disruption = true,
          .annotations = std::move(annotations)};
}

}  // namespace holdfast::agent
