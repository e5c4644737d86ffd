// SPDX-License-Identifier: Apache-2.0
// KubeletApi: the node as API servers, metrics collectors and administrators ask it over HTTPS: the paths, texts and
// status codes of a kubelet's port 10250. Who asks is authenticated and authorized first, whatever he asks for.
// Source: feature-map 1.15, control-plane.md section 7.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "agent/api/kubelet/stats_metrics.h"
#include "agent/cluster/api.h"
#include "agent/config/agent_config.h"
#include "agent/http/serving_certificate.h"
#include "agent/http/upgraded_connection.h"
#include "agent/stats/node_stats.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::api {

// All borrowed.
struct KubeletApiParts {
  const AgentConfig& config;
  PodView& pods;
  NodeStats& stats;
  Api* api;  // null: without a cluster
  ServingCertificate& certificate;
  const Clock& clock;
  std::string version;                   // of the agent
  std::function<MachineSpec()> machine;  // any thread
  // "", or why the agent is not well. Any thread; must not block.
  std::function<std::string()> unhealthy_because;
  // Takes /exec, /attach, /portForward and /run, which were permitted; unset: nobody does. On the server's thread.
  std::function<void(UpgradedConnection)> sessions;
  // Text of /metrics/probes; unset: there are none. Any thread.
  std::function<std::string()> probe_metrics;
  // What /metrics has of pods besides; unset: nothing. Any thread.
  std::function<std::string()> pod_metrics;
  // How many images were removed for their age, and to make room; unset: none. Any thread.
  std::function<std::pair<uint64_t, uint64_t>()> collected_images;
  std::function<void(const std::string& line)> log;
};

class KubeletApi {
 public:
  // kInvalidArgument when files of the configuration cannot be used.
  static Result<std::unique_ptr<KubeletApi>> Start(KubeletApiParts parts);
  ~KubeletApi();  // nobody above is called any more
  KubeletApi(const KubeletApi&) = delete;
  KubeletApi& operator=(const KubeletApi&) = delete;

  uint16_t port() const;  // 0 while it does not listen
  // Certificates and authorities in files are looked at, on another thread. Any thread.
  void RefreshFiles();

 private:
  class Impl;
  explicit KubeletApi(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent::api
