// SPDX-License-Identifier: Apache-2.0
// NodeStats: what the node, its pods and their containers have used. Read when somebody asks and what was read last is
// old, so that it costs nothing when nobody does; one reading serves all who ask meanwhile. Thread-safe; may block on
// small files. Source: feature-map 1.16.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/stats/machine_stats.h"
#include "agent/stats/tree_sizes.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"
#include "runtime/cgroup/naming.h"
#include "runtime/cgroup/statistics.h"

namespace holdfast::agent {

// One cgroup at one time.
struct UsageSample {
  WallTime at;
  runtime::CgroupStatistics used;
  std::optional<uint64_t> nano_cores;  // since the sample before; absent: there is none
};

struct ContainerStats {
  std::string name, id, image, cgroup;
  WallTime started;
  UsageSample usage;
  std::optional<FsUsage> root, logs;  // `used` and `inodes_used` are its own
};

struct VolumeStats {
  std::string name;
  FsUsage fs;  // `used` and `inodes_used` are its own
  std::string claim =
      {};  // in the pod's namespace; "": it is no claim's, and lies on the node's file system
};

struct PodStats {
  std::string name, pod_namespace, uid, cgroup;
  WallTime started;
  bool host_network = false;
  std::optional<UsageSample> usage;
  std::vector<ContainerStats> containers;  // those that run
  std::vector<InterfaceStats> interfaces;
  std::vector<VolumeStats> volumes;
};

struct NodeSample {
  WallTime at;
  MachineStats machine;
  UsageSample node;
  std::optional<UsageSample> all_pods, agent;
  std::optional<FsUsage> root_fs, image_fs;
  std::vector<PodStats> pods;
  bool failed = false;  // something that is there could not be read
};

struct NodeStatsOptions {
  const model::Instance& instance;  // borrowed, as all here
  PodView& pods;
  const Clock& clock;
  runtime::CgroupNaming naming = runtime::CgroupNaming::kCgroupfs;
  // By volume, what is known of a pod's claims, and who finds out more; absent: nobody knows of any.
  std::function<std::map<std::string, FsUsage>(const k8s::io::api::core::v1::Pod&)> claims = {};
  std::function<void()> measure_claims = {};
};

class NodeStats {
 public:
  explicit NodeStats(NodeStatsOptions options);

  // At most `fresh_for` old. kInternal and the like when the machine has no cgroups to read.
  Result<std::shared_ptr<const NodeSample>> Sample(
      std::chrono::milliseconds fresh_for = std::chrono::seconds(5));
  // Counts what pods have written since; the next samples have it. May take long.
  void MeasureTrees() { trees_.Measure(); }
  // Finds out what is left of the volumes of claims; the next samples have it. May take as long as storage plugins do.
  void MeasureClaims() {
    if (options_.measure_claims) options_.measure_claims();
  }

 private:
  // The sample before, by cgroup: what a rate is computed from.
  struct Before {
    WallTime at;
    uint64_t nanos = 0;
  };
  using Rates = std::map<std::string, Before>;

  void ReadNode(NodeSample& sample, Rates& rates) const;
  void ReadPod(const k8s::io::api::core::v1::Pod& pod, NodeSample& sample, Rates& rates);
  void ReadContainers(const k8s::io::api::core::v1::Pod& pod, NodeSample& sample, Rates& rates,
                      PodStats& out);
  void ReadVolumes(const k8s::io::api::core::v1::Pod& pod, const NodeSample& sample, PodStats& out);
  std::optional<FsUsage> UsageOfTree(const NodeSample& sample, const std::string& path);
  std::optional<UsageSample> ReadUsage(const std::string& cgroup, NodeSample& sample,
                                       Rates& rates) const;
  UsageSample WithRate(const std::string& key, runtime::CgroupStatistics used, Rates& rates) const;
  std::string PodCgroup(const k8s::io::api::core::v1::Pod& pod) const;

  const NodeStatsOptions options_;
  std::mutex mutex_;  // held while reading
  std::optional<runtime::CgroupLayout> layout_;
  std::shared_ptr<const NodeSample> last_;
  Rates rates_;
  TreeSizes trees_;
};

}  // namespace holdfast::agent
