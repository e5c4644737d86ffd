// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/proxy_metrics.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {
namespace {

std::vector<double> SyncBounds() {
  std::vector<double> bounds;
  for (double bound = 0.001; bounds.size() < 15; bound *= 2) bounds.push_back(bound);
  return bounds;
}

// A quarter and half a second, each second of the first minute, each five of the second one, each
// thirty up to five minutes.
std::vector<double> ProgrammingBounds() {
  std::vector<double> bounds = {0.25, 0.5};
  for (int second = 1; second < 60; ++second) bounds.push_back(second);
  for (int second = 60; second < 120; second += 5) bounds.push_back(second);
  for (int second = 120; second <= 300; second += 30) bounds.push_back(second);
  return bounds;
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

MetricLabels Family(const std::string& family) { return {{"ip_family", family}}; }

uint64_t Of(const std::map<std::string, uint64_t>& counts, const std::string& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

void AddCodes(const std::map<int, uint64_t>& codes, MetricsText& text) {
  for (const auto& [code, count] : codes) {
    text.Add(static_cast<double>(count), {{"code", std::to_string(code)}});
  }
}

}  // namespace

ProxyMetrics::ProxyMetrics()
    : syncs_(SyncBounds()),
      full_syncs_(SyncBounds()),
      partial_syncs_(SyncBounds()),
      programming_(ProgrammingBounds()),
      flows_(SyncBounds()) {}

void ProxyMetrics::NoteQueued(WallTime now) {
  const std::lock_guard lock(mutex_);
  last_queued_ = now;
}

void ProxyMetrics::NoteSync(bool full, std::chrono::nanoseconds took, WallTime now,
                            const std::vector<WallTime>& triggers) {
  const std::lock_guard lock(mutex_);
  syncs_.Observe(Seconds(took));
  (full ? full_syncs_ : partial_syncs_).Observe(Seconds(took));
  last_sync_ = now;
  for (const WallTime trigger : triggers) {
    programming_.Observe(Seconds(now.since_epoch - trigger.since_epoch));
  }
}

void ProxyMetrics::NoteFailure(const std::string& mode, bool full) {
  const std::lock_guard lock(mutex_);
  ++(full ? failures_ : partial_failures_)[mode];
}

void ProxyMetrics::NoteCleanupFailure() {
  const std::lock_guard lock(mutex_);
  ++cleanup_failures_;
}

void ProxyMetrics::NoteRules(std::vector<RuleCount> counts) {
  const std::lock_guard lock(mutex_);
  rules_ = std::move(counts);
}

void ProxyMetrics::NoteFlows(std::chrono::nanoseconds took, size_t deleted) {
  const std::lock_guard lock(mutex_);
  flows_.Observe(Seconds(took));
  deleted_flows_ += deleted;
}

void ProxyMetrics::NoteHealthz(int status) {
  const std::lock_guard lock(mutex_);
  ++healthz_[status];
}

void ProxyMetrics::NoteLivez(int status) {
  const std::lock_guard lock(mutex_);
  ++livez_[status];
}

std::string ProxyMetrics::Text(const Now& now) const {
  const std::lock_guard lock(mutex_);
  MetricsText text;
  AddSyncs(now, text);
  AddChanges(now, text);
  AddFailures(now, text);
  AddRules(now, text);
  AddFlows(now, text);
  AddProbes(text);
  AddAnnounced(now, text);
  return text.text();
}

void ProxyMetrics::AddSyncs(const Now& now, MetricsText& text) const {
  const auto histogram = [&](const char* name, const char* help, const Histogram& values) {
    text.Begin(name, help, "histogram");
    for (const std::string& family : now.families) text.Add(values, Family(family));
  };
  histogram("kubeproxy_sync_proxy_rules_duration_seconds", "Time that writing rules took", syncs_);
  histogram("kubeproxy_sync_full_proxy_rules_duration_seconds", "Time that writing all rules took",
            full_syncs_);
  histogram("kubeproxy_sync_partial_proxy_rules_duration_seconds",
            "Time that writing changed rules took", partial_syncs_);
  histogram("kubeproxy_network_programming_duration_seconds",
            "Time from the change that endpoints follow until the rules were written",
            programming_);
  const auto time = [&](const char* name, const char* help, WallTime at) {
    text.Begin(name, help, "gauge");
    for (const std::string& family : now.families)
      text.Add(Seconds(at.since_epoch), Family(family));
  };
  time("kubeproxy_sync_proxy_rules_last_timestamp_seconds",
       "When rules were written successfully the last time", last_sync_);
  time("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
       "When a change of rules was asked for the last time", last_queued_);
}

void ProxyMetrics::AddChanges(const Now& now, MetricsText& text) const {
  const auto number = [&](const char* name, const char* help, const char* type, uint64_t value) {
    text.Begin(name, help, type);
    text.Add(static_cast<double>(value));
  };
  number("kubeproxy_sync_proxy_rules_endpoint_changes_pending",
         "Changes of EndpointSlices that are not in the rules yet", "gauge",
         now.pending_endpoint_changes);
  number("kubeproxy_sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices",
         "counter", now.endpoint_changes);
  number("kubeproxy_sync_proxy_rules_service_changes_pending",
         "Changes of Services that are not in the rules yet", "gauge", now.pending_service_changes);
  number("kubeproxy_sync_proxy_rules_service_changes_total", "Changes of Services", "counter",
         now.service_changes);
  text.Begin("kubeproxy_sync_proxy_rules_no_local_endpoints_total",
             "Service ports with a Local traffic policy and endpoints on other nodes only",
             "gauge");
  for (const std::string& family : now.families) {
    text.Add(static_cast<double>(Of(now.no_local_internal, family)),
             {{"traffic_policy", "internal"}, {"ip_family", family}});
    text.Add(static_cast<double>(Of(now.no_local_external, family)),
             {{"traffic_policy", "external"}, {"ip_family", family}});
  }
}

void ProxyMetrics::AddFailures(const Now& now, MetricsText& text) const {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    text.Begin(name, help, "counter");
    for (const std::string& family : now.families) {
      text.Add(static_cast<double>(value), Family(family));
    }
  };
  const uint64_t full = Of(failures_, now.mode);
  const uint64_t partial = Of(partial_failures_, now.mode);
  if (now.mode == "nftables") {
    counter("kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
            "Changes that the kernel did not take", full + partial);
    counter("kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
            "Removals of another mode's rules that failed", cleanup_failures_);
  } else {
    counter("kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
            "Changes that iptables-restore did not take", full + partial);
    counter("kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
            "Changes of some rules that iptables-restore did not take", partial);
  }
}

void ProxyMetrics::AddRules(const Now& now, MetricsText& text) const {
  if (rules_.empty()) return;
  const auto gauge = [&](const char* name, const char* help, uint64_t RuleCount::* value) {
    text.Begin(name, help, "gauge");
    for (const RuleCount& count : rules_) {
      const char* family = count.v6 ? "IPv6" : "IPv4";
      if (std::find(now.families.begin(), now.families.end(), family) == now.families.end())
        continue;
      text.Add(static_cast<double>(count.*value), {{"ip_family", family}, {"table", count.table}});
    }
  };
  gauge("kubeproxy_sync_proxy_rules_iptables_total", "Rules of Services", &RuleCount::rules);
  gauge("kubeproxy_sync_proxy_rules_iptables_last", "Rules that the last change wrote",
        &RuleCount::written);
}

void ProxyMetrics::AddFlows(const Now& now, MetricsText& text) const {
  text.Begin("kubeproxy_conntrack_reconciler_sync_duration_seconds",
             "Time that looking for stale flows took", "histogram");
  for (const std::string& family : now.families) text.Add(flows_, Family(family));
  text.Begin("kubeproxy_conntrack_reconciler_deleted_entries_total", "Stale flows deleted",
             "counter");
  for (const std::string& family : now.families) {
    text.Add(static_cast<double>(deleted_flows_), Family(family));
  }
}

void ProxyMetrics::AddAnnounced(const Now& now, MetricsText& text) {
  if (now.announced.empty()) return;
  using Status = netproxy::announce::AddressStatus;
  const auto each = [&](const char* name, const char* help, const char* type, auto value) {
    text.Begin(name, help, type);
    for (const Status& status : now.announced) {
      text.Add(static_cast<double>(value(status)),
               {{"address", status.address.ToString()}, {"interface", status.interface}});
    }
  };
  each("holdfast_announced_address_held", "Whether this node answers for the address", "gauge",
       [](const Status& status) { return status.held ? 1 : 0; });
  each("holdfast_announced_address_taken_total", "How often this node became the one that answers",
       "counter", [](const Status& status) { return status.taken; });
  each("holdfast_announced_address_answers_total", "Questions for the address that were answered",
       "counter", [](const Status& status) { return status.answers; });
}

void ProxyMetrics::AddProbes(MetricsText& text) const {
  text.Begin("kubeproxy_proxy_healthz_total", "Answers of /healthz", "counter");
  AddCodes(healthz_, text);
  text.Begin("kubeproxy_proxy_livez_total", "Answers of /livez", "counter");
  AddCodes(livez_, text);
}

}  // namespace holdfast::agent
