// SPDX-License-Identifier: Apache-2.0
// Pods of an API server, and what they have, for tests of who goes when the node is short of something.
#pragma once

#include <cstdint>
#include <string>

#include "agent/stats/node_stats.h"

namespace holdfast::agent {

inline constexpr uint64_t kMi = 1 << 20;

// Of one container, "app"; its uid is its name.
inline k8s::io::api::core::v1::Pod RunningPod(const std::string& name,
                                              const std::string& memory_request = "",
                                              int32_t priority = 0) {
  k8s::io::api::core::v1::Pod pod;
  auto* meta = pod.mutable_metadata();
  meta->set_namespace_("default");
  meta->set_name(name);
  meta->set_uid(name);
  (*meta->mutable_annotations())["kubernetes.io/config.source"] = "api";
  auto* container = pod.mutable_spec()->add_containers();
  container->set_name("app");
  if (!memory_request.empty()) {
    (*container->mutable_resources()->mutable_requests())["memory"].set_string(memory_request);
  }
  pod.mutable_spec()->set_priority(priority);
  pod.mutable_status()->set_phase("Running");
  return pod;
}

inline PodStats StatsOf(const std::string& name, uint64_t working_set) {
  PodStats stats;
  stats.name = name;
  stats.uid = name;
  stats.usage.emplace();
  stats.usage->used.memory.working_set = working_set;
  ContainerStats app;
  app.name = "app";
  app.usage = *stats.usage;
  stats.containers.push_back(app);
  return stats;
}

}  // namespace holdfast::agent
