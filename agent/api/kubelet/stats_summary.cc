// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/stats_summary.h"

#include <nlohmann/json.hpp>

#include "agent/kube/times.h"

namespace holdfast::agent::api {
namespace {

// Fields in the order in which Go's types have them.
using OrderedJson = nlohmann::ordered_json;

OrderedJson PressureLineJson(const runtime::PressureLine& line) {
  return {{"total", line.total_micros},
          {"avg10", line.avg10},
          {"avg60", line.avg60},
          {"avg300", line.avg300}};
}

void AddPressure(const std::optional<runtime::Pressure>& pressure, OrderedJson& to) {
  if (!pressure) return;
  to["psi"] = {{"full", PressureLineJson(pressure->full)},
               {"some", PressureLineJson(pressure->some)}};
}

OrderedJson CpuJson(const UsageSample& sample) {
  OrderedJson out = {{"time", kube::FormatRfc3339(sample.at)}};
  if (sample.nano_cores) out["usageNanoCores"] = *sample.nano_cores;
  out["usageCoreNanoSeconds"] = sample.used.cpu.nanos;
  AddPressure(sample.used.cpu.pressure, out);
  return out;
}

OrderedJson MemoryJson(const UsageSample& sample) {
  const auto& memory = sample.used.memory;
  OrderedJson out = {{"time", kube::FormatRfc3339(sample.at)}};
  if (memory.limit != UINT64_MAX) {
    out["availableBytes"] = memory.limit - std::min(memory.limit, memory.working_set);
  }
  out["usageBytes"] = memory.usage;
  out["workingSetBytes"] = memory.working_set;
  out["rssBytes"] = memory.rss;
  out["pageFaults"] = memory.faults;
  out["majorPageFaults"] = memory.major_faults;
  AddPressure(memory.pressure, out);
  return out;
}

OrderedJson SwapJson(const UsageSample& sample) {
  const auto& memory = sample.used.memory;
  OrderedJson out = {{"time", kube::FormatRfc3339(sample.at)}};
  if (memory.swap_limit != UINT64_MAX) {
    out["swapAvailableBytes"] = memory.swap_limit - std::min(memory.swap_limit, memory.swap);
  }
  out["swapUsageBytes"] = memory.swap;
  return out;
}

OrderedJson NodeSwapJson(const NodeSample& sample) {
  const uint64_t total = sample.machine.swap_total, used = sample.machine.used.memory.swap;
  return {{"time", kube::FormatRfc3339(sample.at)},
          {"swapAvailableBytes", total - std::min(total, used)},
          {"swapUsageBytes", used}};
}

// Only where there is something to tell.
void AddIo(const UsageSample& sample, OrderedJson& to) {
  if (!sample.used.io.pressure) return;
  OrderedJson io = {{"time", kube::FormatRfc3339(sample.at)}};
  AddPressure(sample.used.io.pressure, io);
  to["io"] = std::move(io);
}

OrderedJson FsJson(WallTime at, const FsUsage& fs) {
  return {{"time", kube::FormatRfc3339(at)}, {"availableBytes", fs.available},
          {"capacityBytes", fs.capacity},    {"usedBytes", fs.used},
          {"inodesFree", fs.inodes_free},    {"inodes", fs.inodes},
          {"inodesUsed", fs.inodes_used}};
}

OrderedJson InterfaceJson(const InterfaceStats& one) {
  return {{"name", one.name},
          {"rxBytes", one.rx_bytes},
          {"rxErrors", one.rx_errors},
          {"txBytes", one.tx_bytes},
          {"txErrors", one.tx_errors}};
}

// The first one, or eth0, stands for all of them.
void AddNetwork(WallTime at, const std::vector<InterfaceStats>& interfaces, OrderedJson& to) {
  if (interfaces.empty()) return;
  const InterfaceStats* chosen = &interfaces.front();
  OrderedJson all = OrderedJson::array();
  for (const InterfaceStats& one : interfaces) {
    if (one.name == "eth0") chosen = &one;
    all.push_back(InterfaceJson(one));
  }
  OrderedJson network = {{"time", kube::FormatRfc3339(at)}};
  network.update(InterfaceJson(*chosen));
  network["interfaces"] = std::move(all);
  to["network"] = std::move(network);
}

OrderedJson ContainerJson(const ContainerStats& container, bool brief) {
  OrderedJson out = {{"name", container.name},
                     {"startTime", kube::FormatRfc3339(container.started)},
                     {"cpu", CpuJson(container.usage)},
                     {"memory", MemoryJson(container.usage)},
                     {"swap", SwapJson(container.usage)}};
  if (brief) return out;
  AddIo(container.usage, out);
  if (container.root) out["rootfs"] = FsJson(container.usage.at, *container.root);
  if (container.logs) out["logs"] = FsJson(container.usage.at, *container.logs);
  return out;
}

void AddVolumes(const PodStats& pod, OrderedJson& to) {
  if (pod.volumes.empty()) return;
  OrderedJson all = OrderedJson::array();
  for (const VolumeStats& volume : pod.volumes) {
    OrderedJson one = FsJson(pod.usage->at, volume.fs);
    one["name"] = volume.name;
    if (!volume.claim.empty()) {
      one["pvcRef"] = {{"name", volume.claim}, {"namespace", pod.pod_namespace}};
    }
    all.push_back(std::move(one));
  }
  to["volume"] = std::move(all);
}

// All that it has on the node's file system, as far as it was counted.
void AddStorage(const PodStats& pod, OrderedJson& to) {
  std::optional<FsUsage> sum;
  const auto add = [&sum](const std::optional<FsUsage>& one) {
    if (!one) return;
    const uint64_t used = sum ? sum->used : 0, inodes = sum ? sum->inodes_used : 0;
    if (!sum) sum = one;
    sum->used = used + one->used;
    sum->inodes_used = inodes + one->inodes_used;
  };
  for (const ContainerStats& container : pod.containers) {
    add(container.root);
    add(container.logs);
  }
  for (const VolumeStats& volume : pod.volumes) {
    if (volume.claim.empty()) add(volume.fs);
  }
  if (sum) to["ephemeral-storage"] = FsJson(pod.usage->at, *sum);
}

OrderedJson PodJson(const PodStats& pod, bool brief) {
  OrderedJson out = {
      {"podRef", {{"name", pod.name}, {"namespace", pod.pod_namespace}, {"uid", pod.uid}}},
      {"startTime", kube::FormatRfc3339(pod.started)},
      {"containers", OrderedJson::array()},
      {"cpu", CpuJson(*pod.usage)},
      {"memory", MemoryJson(*pod.usage)},
      {"swap", SwapJson(*pod.usage)}};
  for (const auto& container : pod.containers) {
    out["containers"].push_back(ContainerJson(container, brief));
  }
  if (brief) return out;
  AddIo(*pod.usage, out);
  AddNetwork(pod.usage->at, pod.interfaces, out);
  AddVolumes(pod, out);
  AddStorage(pod, out);
  out["process_stats"] = {{"process_count", pod.usage->used.threads}};
  return out;
}

OrderedJson SystemContainers(const NodeSample& sample) {
  OrderedJson out = OrderedJson::array();
  const auto add = [&](const char* name, const std::optional<UsageSample>& usage) {
    if (!usage) return;
    out.push_back({{"name", name},
                   {"startTime", kube::FormatRfc3339(sample.machine.booted)},
                   {"cpu", CpuJson(*usage)},
                   {"memory", MemoryJson(*usage)},
                   {"swap", SwapJson(*usage)}});
  };
  add("kubelet", sample.agent);
  add("pods", sample.all_pods);
  return out;
}

OrderedJson NodeJson(const NodeSample& sample, const std::string& name, bool brief) {
  OrderedJson out = {{"nodeName", name},
                     {"systemContainers", SystemContainers(sample)},
                     {"startTime", kube::FormatRfc3339(sample.machine.booted)},
                     {"cpu", CpuJson(sample.node)},
                     {"memory", MemoryJson(sample.node)},
                     {"swap", NodeSwapJson(sample)}};
  if (brief) return out;
  AddIo(sample.node, out);
  AddNetwork(sample.at, sample.machine.interfaces, out);
  if (sample.root_fs) out["fs"] = FsJson(sample.at, *sample.root_fs);
  if (sample.image_fs) {
    out["runtime"] = {{"imageFs", FsJson(sample.at, *sample.image_fs)},
                      {"containerFs", FsJson(sample.at, *sample.image_fs)}};
  }
  out["rlimit"] = {{"time", kube::FormatRfc3339(sample.at)},
                   {"maxpid", sample.machine.most_pids},
                   {"curproc", sample.machine.used.threads}};
  return out;
}

}  // namespace

std::string SummaryJson(const NodeSample& sample, const std::string& node_name,
                        bool only_cpu_and_memory) {
  OrderedJson out = {{"node", NodeJson(sample, node_name, only_cpu_and_memory)},
                     {"pods", OrderedJson::array()}};
  for (const PodStats& pod : sample.pods) {
    out["pods"].push_back(PodJson(pod, only_cpu_and_memory));
  }
  // Names come from objects of others.
  return out.dump(1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace holdfast::agent::api
