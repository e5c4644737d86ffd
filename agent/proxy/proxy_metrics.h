// SPDX-License-Identifier: Apache-2.0
// ProxyMetrics: what kube-proxy counts, under its names (feature map 4.6). Thread-safe.
//
// kube-proxy syncs each IP family on its own; here one change brings both, so both families of a
// sync show the same duration and time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/base/metrics_text.h"
#include "holdfast/base/clock.h"
#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/announce/segment.h"

namespace holdfast::agent {

class ProxyMetrics {
 public:
  ProxyMetrics();

  void NoteQueued(WallTime now);
  // `full`: everything was sent. `triggers`: when what the endpoints follow had changed.
  void NoteSync(bool full, std::chrono::nanoseconds took, WallTime now,
                const std::vector<WallTime>& triggers);
  void NoteFailure(const std::string& mode, bool full);
  void NoteCleanupFailure();
  // Of a mode that counts them; none of another.
  void NoteRules(std::vector<RuleCount> counts);
  void NoteFlows(std::chrono::nanoseconds took, size_t deleted);
  void NoteHealthz(int status);
  void NoteLivez(int status);

  // What is only known at the moment of the question.
  struct Now {
    std::string mode;
    std::vector<std::string> families;  // "IPv4", "IPv6"
    uint64_t service_changes = 0;
    uint64_t endpoint_changes = 0;
    uint64_t pending_service_changes = 0;
    uint64_t pending_endpoint_changes = 0;
    // Service ports with a Local policy and no endpoint here, though there are some elsewhere; by
    // family.
    std::map<std::string, uint64_t> no_local_internal;
    std::map<std::string, uint64_t> no_local_external;
    std::vector<netproxy::announce::AddressStatus> announced;  // kube-proxy has no such thing
  };
  std::string Text(const Now& now) const;

 private:
  void AddSyncs(const Now& now, MetricsText& text) const;
  void AddChanges(const Now& now, MetricsText& text) const;
  void AddFailures(const Now& now, MetricsText& text) const;
  void AddRules(const Now& now, MetricsText& text) const;
  void AddFlows(const Now& now, MetricsText& text) const;
  void AddProbes(MetricsText& text) const;
  static void AddAnnounced(const Now& now, MetricsText& text);

  mutable std::mutex mutex_;  // guards what follows
  Histogram syncs_;
  Histogram full_syncs_;
  Histogram partial_syncs_;
  Histogram programming_;
  Histogram flows_;
  uint64_t deleted_flows_ = 0;
  WallTime last_sync_;
  WallTime last_queued_;
  std::map<std::string, uint64_t> failures_;          // by mode
  std::map<std::string, uint64_t> partial_failures_;  // by mode
  uint64_t cleanup_failures_ = 0;
  std::vector<RuleCount> rules_;
  std::map<int, uint64_t> healthz_;  // by status
  std::map<int, uint64_t> livez_;
};

}  // namespace holdfast::agent
