// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/stats_metrics.h"

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

using Used = runtime::CgroupStatistics;
using Value = std::optional<double> (*)(const Used&);

double Seconds(uint64_t nanos) { return static_cast<double>(nanos) / 1e9; }
double SecondsOfMicros(uint64_t micros) { return static_cast<double>(micros) / 1e6; }
double Bytes(uint64_t bytes) { return static_cast<double>(bytes); }
// cAdvisor says 0 where there is no limit.
double LimitBytes(uint64_t bytes) { return bytes == UINT64_MAX ? 0 : Bytes(bytes); }
double SinceEpoch(WallTime time) { return std::chrono::duration<double>(time.since_epoch).count(); }

MetricLabels PodLabels(const PodStats& pod) {
  return {{"namespace", pod.pod_namespace}, {"pod", pod.name}};
}
MetricLabels ContainerLabels(const PodStats& pod, const ContainerStats& container) {
  return {{"container", container.name}, {"namespace", pod.pod_namespace}, {"pod", pod.name}};
}

// --- /metrics/resource ---

void AddContainers(const NodeSample& sample, MetricsText& text,
                   const std::function<std::optional<double>(const ContainerStats&)>& value) {
  for (const PodStats& pod : sample.pods) {
    for (const ContainerStats& container : pod.containers) {
      const auto one = value(container);
      if (one) text.AddAt(*one, ContainerLabels(pod, container), container.usage.at);
    }
  }
}

void AddPods(const NodeSample& sample, MetricsText& text, Value value) {
  for (const PodStats& pod : sample.pods) {
    text.AddAt(*value(pod.usage->used), PodLabels(pod), pod.usage->at);
  }
}

std::optional<double> CpuSeconds(const Used& used) { return Seconds(used.cpu.nanos); }
std::optional<double> WorkingSet(const Used& used) { return Bytes(used.memory.working_set); }
std::optional<double> Swap(const Used& used) { return Bytes(used.memory.swap); }

void AddContainerResources(const NodeSample& sample, MetricsText& text) {
  const auto of = [&](Value value) {
    AddContainers(sample, text, [value](const auto& one) { return value(one.usage.used); });
  };
  text.Begin("container_cpu_usage_seconds_total",
             "[STABLE] Cumulative cpu time consumed by the container in core-seconds", "counter");
  of(CpuSeconds);
  text.Begin("container_memory_working_set_bytes",
             "[STABLE] Current working set of the container in bytes", "gauge");
  of(WorkingSet);
  text.Begin("container_start_time_seconds",
             "[STABLE] Start time of the container since unix epoch in seconds", "gauge");
  AddContainers(sample, text,
                [](const auto& one) { return std::optional(SinceEpoch(one.started)); });
  text.Begin("container_swap_limit_bytes",
             "[ALPHA] Current amount of the container swap limit in bytes. Reported only on "
             "non-windows systems",
             "gauge");
  of([](const Used& used) {
    const uint64_t limit = used.memory.swap_limit;
    return limit == UINT64_MAX ? std::nullopt : std::optional(Bytes(limit));
  });
  text.Begin("container_swap_usage_bytes",
             "[ALPHA] Current amount of the container swap usage in bytes. Reported only on "
             "non-windows systems",
             "gauge");
  of(Swap);
}

// --- /metrics/cadvisor ---

struct Series {
  const char *name, *help, *type;
  Value value;
};

template <uint64_t runtime::DiskTraffic::* field>
std::optional<double> OfDisks(const Used& used) {
  if (!used.io.disks) return std::nullopt;
  return Bytes((*used.io.disks).*field);
}

// The order is that of the names.
constexpr Series kUsage[] = {
    {"container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.",
     "counter", [](const Used& u) { return std::optional(Bytes(u.cpu.periods)); }},
    {"container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals.",
     "counter", [](const Used& u) { return std::optional(Bytes(u.cpu.throttled_periods)); }},
    {"container_cpu_cfs_throttled_seconds_total",
     "Total time duration the container has been throttled.", "counter",
     [](const Used& u) { return std::optional(Seconds(u.cpu.throttled_nanos)); }},
    {"container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.",
     "counter", [](const Used& u) { return std::optional(Seconds(u.cpu.system_nanos)); }},
    {"container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", "counter",
     [](const Used& u) { return std::optional(Seconds(u.cpu.user_nanos)); }},
    {"container_fs_reads_bytes_total", "Cumulative count of bytes read", "counter",
     OfDisks<&runtime::DiskTraffic::read_bytes>},
    {"container_fs_reads_total", "Cumulative count of reads completed", "counter",
     OfDisks<&runtime::DiskTraffic::reads>},
    {"container_fs_writes_bytes_total", "Cumulative count of bytes written", "counter",
     OfDisks<&runtime::DiskTraffic::written_bytes>},
    {"container_fs_writes_total", "Cumulative count of writes completed", "counter",
     OfDisks<&runtime::DiskTraffic::writes>},
    {"container_memory_cache", "Number of bytes of page cache memory.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.cache)); }},
    {"container_memory_failcnt", "Number of memory usage hits limits", "counter",
     [](const Used& u) { return std::optional(Bytes(u.memory.limit_hits)); }},
    {"container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.kernel)); }},
    {"container_memory_mapped_file", "Size of memory mapped files in bytes.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.mapped_file)); }},
    {"container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.most)); }},
    {"container_memory_rss", "Size of RSS in bytes.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.rss)); }},
    {"container_memory_swap", "Container swap usage in bytes.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.memory.swap)); }},
    {"container_memory_usage_bytes",
     "Current memory usage in bytes, including all memory regardless of when it was accessed",
     "gauge", [](const Used& u) { return std::optional(Bytes(u.memory.usage)); }},
    {"container_memory_working_set_bytes", "Current working set in bytes.", "gauge", WorkingSet},
    {"container_oom_events_total", "Count of out of memory events observed for the container",
     "counter", [](const Used& u) { return std::optional(Bytes(u.memory.oom_kills)); }},
    {"container_processes", "Number of processes running inside the container.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.processes)); }},
    {"container_spec_cpu_period", "CPU period of the container.", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.cpu.period_micros)); }},
    {"container_spec_cpu_quota", "CPU quota of the container.", "gauge",
     [](const Used& u) {
       return u.cpu.quota_micros ? std::optional(Bytes(*u.cpu.quota_micros)) : std::nullopt;
     }},
    {"container_spec_memory_limit_bytes", "Memory limit for the container.", "gauge",
     [](const Used& u) { return std::optional(LimitBytes(u.memory.limit)); }},
    {"container_spec_memory_swap_limit_bytes", "Memory swap limit for the container.", "gauge",
     [](const Used& u) { return std::optional(LimitBytes(u.memory.swap_limit)); }},
    {"container_threads", "Number of threads running inside the container", "gauge",
     [](const Used& u) { return std::optional(Bytes(u.threads)); }},
    {"container_threads_max",
     "Maximum number of threads allowed inside the container, infinity if value is zero", "gauge",
     [](const Used& u) { return std::optional(LimitBytes(u.most_threads)); }},
};

// Of pressure: who waited (some), and when nobody worked (full).
std::optional<double> Waited(const std::optional<runtime::Pressure>& pressure) {
  return pressure ? std::optional(SecondsOfMicros(pressure->some.total_micros)) : std::nullopt;
}
std::optional<double> Stalled(const std::optional<runtime::Pressure>& pressure) {
  return pressure ? std::optional(SecondsOfMicros(pressure->full.total_micros)) : std::nullopt;
}
constexpr Series kPressure[] = {
    {"container_pressure_cpu_stalled_seconds_total",
     "Total time duration no tasks in the container could make progress due to CPU congestion.",
     "counter", [](const Used& u) { return Stalled(u.cpu.pressure); }},
    {"container_pressure_cpu_waiting_seconds_total",
     "Total time duration tasks in the container have waited due to CPU congestion.", "counter",
     [](const Used& u) { return Waited(u.cpu.pressure); }},
    {"container_pressure_io_stalled_seconds_total",
     "Total time duration no tasks in the container could make progress due to IO congestion.",
     "counter", [](const Used& u) { return Stalled(u.io.pressure); }},
    {"container_pressure_io_waiting_seconds_total",
     "Total time duration tasks in the container have waited due to IO congestion.", "counter",
     [](const Used& u) { return Waited(u.io.pressure); }},
    {"container_pressure_memory_stalled_seconds_total",
     "Total time duration no tasks in the container could make progress due to memory congestion.",
     "counter", [](const Used& u) { return Stalled(u.memory.pressure); }},
    {"container_pressure_memory_waiting_seconds_total",
     "Total time duration tasks in the container have waited due to memory congestion.", "counter",
     [](const Used& u) { return Waited(u.memory.pressure); }},
};

// One cgroup, as cAdvisor labels it.
struct Row {
  MetricLabels labels;
  const UsageSample* usage;
  WallTime started;
};

Row RowOf(const std::string& container, const std::string& id, const std::string& image,
          const std::string& name, const PodStats* pod, const UsageSample& usage,
          WallTime started) {
  return {{{"container", container},
           {"id", id},
           {"image", image},
           {"name", name},
           {"namespace", pod != nullptr ? pod->pod_namespace : ""},
           {"pod", pod != nullptr ? pod->name : ""}},
          &usage,
          started};
}

std::vector<Row> RowsOf(const NodeSample& sample) {
  std::vector<Row> rows = {RowOf("", "/", "", "", nullptr, sample.node, sample.machine.booted)};
  for (const PodStats& pod : sample.pods) {
    rows.push_back(RowOf("", pod.cgroup, "", "", &pod, *pod.usage, pod.started));
    for (const ContainerStats& one : pod.containers) {
      rows.push_back(RowOf(one.name, one.cgroup, one.image, one.id, &pod, one.usage, one.started));
    }
  }
  return rows;
}

void AddSeries(const std::vector<Row>& rows, const Series& series, MetricsText& text) {
  bool begun = false;
  for (const Row& row : rows) {
    const auto value = series.value(row.usage->used);
    if (!value) continue;  // this kernel does not have it
    if (!std::exchange(begun, true)) text.Begin(series.name, series.help, series.type);
    text.AddAt(*value, row.labels, row.usage->at);
  }
}

MetricLabels With(MetricLabels labels, const char* name, const std::string& value) {
  labels.emplace_back(name, value);
  return labels;
}

// Whose `cpu` is "total": the kernel does not say which one for a cgroup.
void AddCpuUsage(const std::vector<Row>& rows, MetricsText& text) {
  text.Begin("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.",
             "counter");
  for (const Row& row : rows) {
    text.AddAt(*CpuSeconds(row.usage->used), With(row.labels, "cpu", "total"), row.usage->at);
  }
}

void AddFaults(const std::vector<Row>& rows, MetricsText& text) {
  text.Begin("container_memory_failures_total", "Cumulative count of memory allocation failures.",
             "counter");
  for (const Row& row : rows) {
    const auto& memory = row.usage->used.memory;
    for (const auto& [type, count] :
         {std::pair("pgfault", memory.faults), std::pair("pgmajfault", memory.major_faults)}) {
      text.AddAt(Bytes(count), With(With(row.labels, "failure_type", type), "scope", "hierarchy"),
                 row.usage->at);
    }
  }
}

struct NetworkSeries {
  const char *name, *help;
  uint64_t InterfaceStats::* value;
};
constexpr NetworkSeries kNetwork[] = {
    {"container_network_receive_bytes_total", "Cumulative count of bytes received",
     &InterfaceStats::rx_bytes},
    {"container_network_receive_errors_total",
     "Cumulative count of errors encountered while receiving", &InterfaceStats::rx_errors},
    {"container_network_receive_packets_dropped_total",
     "Cumulative count of packets dropped while receiving", &InterfaceStats::rx_dropped},
    {"container_network_receive_packets_total", "Cumulative count of packets received",
     &InterfaceStats::rx_packets},
    {"container_network_transmit_bytes_total", "Cumulative count of bytes transmitted",
     &InterfaceStats::tx_bytes},
    {"container_network_transmit_errors_total",
     "Cumulative count of errors encountered while transmitting", &InterfaceStats::tx_errors},
    {"container_network_transmit_packets_dropped_total",
     "Cumulative count of packets dropped while transmitting", &InterfaceStats::tx_dropped},
    {"container_network_transmit_packets_total", "Cumulative count of packets transmitted",
     &InterfaceStats::tx_packets},
};

void AddNetwork(const NodeSample& sample, MetricsText& text) {
  for (const NetworkSeries& series : kNetwork) {
    text.Begin(series.name, series.help, "counter");
    const auto add = [&](const MetricLabels& labels, const auto& interfaces, WallTime at) {
      for (const InterfaceStats& one : interfaces) {
        text.AddAt(Bytes(one.*series.value), With(labels, "interface", one.name), at);
      }
    };
    add(RowOf("", "/", "", "", nullptr, sample.node, {}).labels, sample.machine.interfaces,
        sample.at);
    for (const PodStats& pod : sample.pods) {
      add(RowOf("", pod.cgroup, "", "", &pod, *pod.usage, {}).labels, pod.interfaces,
          pod.usage->at);
    }
  }
}

void AddTimes(const std::vector<Row>& rows, MetricsText& text) {
  text.Begin("container_last_seen", "Last time a container was seen by the exporter", "gauge");
  for (const Row& row : rows) {
    text.AddAt(SinceEpoch(row.usage->at), row.labels, row.usage->at);
  }
  text.Begin("container_start_time_seconds",
             "Start time of the container since unix epoch in seconds.", "gauge");
  for (const Row& row : rows) text.AddAt(SinceEpoch(row.started), row.labels, row.usage->at);
}

void AddFileSystem(const NodeSample& sample, MetricsText& text) {
  if (!sample.root_fs) return;
  const MetricLabels labels =
      With(RowOf("", "/", "", "", nullptr, sample.node, {}).labels, "device", "rootfs");
  text.Begin("container_fs_limit_bytes",
             "Number of bytes that can be consumed by the container on this filesystem.", "gauge");
  text.AddAt(Bytes(sample.root_fs->capacity), labels, sample.at);
  text.Begin("container_fs_usage_bytes",
             "Number of bytes that are consumed by the container on this filesystem.", "gauge");
  text.AddAt(Bytes(sample.root_fs->used), labels, sample.at);
}

void AddMachine(const MachineSpec& machine, MetricsText& text) {
  const MetricLabels labels = {{"boot_id", machine.boot_id},
                               {"machine_id", machine.machine_id},
                               {"system_uuid", machine.system_uuid}};
  const auto add = [&](const char* name, const char* help, double value) {
    text.Begin(name, help, "gauge");
    text.Add(value, labels);
  };
  add("machine_cpu_cores", "Number of logical CPU cores.", static_cast<double>(machine.cores));
  add("machine_memory_bytes", "Amount of memory installed on the machine.",
      Bytes(machine.memory_bytes));
  add("machine_swap_bytes", "Amount of swap memory available on the machine.",
      Bytes(machine.swap_bytes));
}

}  // namespace

std::string ResourceMetrics(const NodeSample& sample) {
  MetricsText text;
  AddContainerResources(sample, text);
  text.Begin("node_cpu_usage_seconds_total",
             "[STABLE] Cumulative cpu time consumed by the node in core-seconds", "counter");
  text.AddAt(*CpuSeconds(sample.node.used), {}, sample.node.at);
  text.Begin("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes",
             "gauge");
  text.AddAt(*WorkingSet(sample.node.used), {}, sample.node.at);
  text.Begin(
      "node_swap_usage_bytes",
      "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
      "gauge");
  text.AddAt(*Swap(sample.node.used), {}, sample.node.at);
  text.Begin("pod_cpu_usage_seconds_total",
             "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", "counter");
  AddPods(sample, text, CpuSeconds);
  text.Begin("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes",
             "gauge");
  AddPods(sample, text, WorkingSet);
  text.Begin("pod_swap_usage_bytes",
             "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows "
             "systems",
             "gauge");
  AddPods(sample, text, Swap);
  text.Begin("resource_scrape_error",
             "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
             "gauge");
  text.Add(sample.failed ? 1 : 0);
  return text.text();
}

void AddVolumeMetrics(const NodeSample& sample, MetricsText& text) {
  struct Metric {
    const char *name, *help;
    uint64_t FsUsage::* amount;
  };
  constexpr Metric kMetrics[] = {
      {"capacity_bytes", "Capacity in bytes of the volume", &FsUsage::capacity},
      {"available_bytes", "Number of available bytes in the volume", &FsUsage::available},
      {"used_bytes", "Number of used bytes in the volume", &FsUsage::used},
      {"inodes", "Maximum number of inodes in the volume", &FsUsage::inodes},
      {"inodes_free", "Number of free inodes in the volume", &FsUsage::inodes_free},
      {"inodes_used", "Number of used inodes in the volume", &FsUsage::inodes_used}};
  // Several pods may share one.
  std::map<std::pair<std::string, std::string>, FsUsage> claims;
  for (const PodStats& pod : sample.pods) {
    for (const VolumeStats& volume : pod.volumes) {
      if (!volume.claim.empty()) claims.try_emplace({pod.pod_namespace, volume.claim}, volume.fs);
    }
  }
  if (claims.empty()) return;
  for (const Metric& metric : kMetrics) {
    text.Begin(StrCat("kubelet_volume_stats_", metric.name), StrCat("[ALPHA] ", metric.help),
               "gauge");
    for (const auto& [claim, fs] : claims) {
      text.Add(static_cast<double>(fs.*metric.amount),
               {{"namespace", claim.first}, {"persistentvolumeclaim", claim.second}});
    }
  }
}

std::string CadvisorMetrics(const NodeSample& sample, const MachineSpec& machine) {
  MetricsText text;
  const std::vector<Row> rows = RowsOf(sample);
  text.Begin("cadvisor_version_info",
             "A metric with a constant '1' value labeled by kernel version, OS version, docker "
             "version, cadvisor version & cadvisor revision.",
             "gauge");
  text.Add(1, {{"cadvisorRevision", ""},
               {"cadvisorVersion", machine.version},
               {"dockerVersion", ""},
               {"kernelVersion", machine.kernel_version},
               {"osVersion", machine.os_version}});
  AddCpuUsage(rows, text);
  for (const Series& series : kUsage) AddSeries(rows, series, text);
  AddFileSystem(sample, text);
  AddFaults(rows, text);
  AddNetwork(sample, text);
  for (const Series& series : kPressure) AddSeries(rows, series, text);
  AddTimes(rows, text);
  AddMachine(machine, text);
  return text.text();
}

}  // namespace holdfast::agent::api
