// SPDX-License-Identifier: Apache-2.0
// ServiceDriver: keeps a back end in step with a ServiceTracker, from a thread of its own. Whatever
// was edited while the back end worked becomes one change. A failure is retried with everything,
// after 1 s and then ever longer up to 30 s; what somebody else does to our rules is repaired when
// RepairSoon() tells of it, and periodically. Thread-safe.
//
// This is what a source of Services drives: the manifest directory (local_services.h), and a watch
// of an API server in the same way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/proxy/proxy_metrics.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/table/service_tracker.h"

namespace holdfast::agent {

struct ServiceDriverOptions {
  netproxy::TableOptions table;
  // The kernel is compared so often, but for at most a twentieth of the time.
  std::chrono::milliseconds repair_every{10'000};
  std::chrono::milliseconds repair_gap{100};  // between two that RepairSoon() asked for
  std::chrono::milliseconds first_retry{1'000};
  std::chrono::milliseconds last_retry{30'000};
  std::shared_ptr<ProxyMetrics> metrics = std::make_shared<ProxyMetrics>();
};

// Called from the driver's thread, without a lock held.
struct ServiceDriverCallbacks {
  // Everything that a service asked for and does not have; empty: all is well again.
  std::function<void(const model::ServiceName&, const std::vector<std::string>& messages)> problems;
  std::function<void(const std::string& line)> log;
};

using HealthChecks = std::map<model::ServiceName, netproxy::HealthCheck>;

struct ServiceProxyHealth {
  WallTime last_updated;                  // of the last change that the kernel took
  std::optional<BootTime> pending_since;  // the oldest change that it has not
  std::string error;                      // of the last try; "" when it went well
};

class ServiceDriver {
 public:
  // `back_end` and `clock` are borrowed.
  ServiceDriver(ServiceBackEnd& back_end, const Clock& clock, ServiceDriverOptions options,
                ServiceDriverCallbacks callbacks);
  ~ServiceDriver();  // ends the thread; the rules stay

  // From here on changes reach the back end; the first one is complete, so everything that is known
  // should have been set before.
  Result<void> Start();

  // One edit, however many calls of the tracker it makes, is seen as one change. `triggers`: when
  // that came about what the edit is a consequence of, for the metrics.
  void Edit(const std::function<void(netproxy::ServiceTracker&)>& edit,
            const std::vector<WallTime>& triggers = {});

  // Somebody touched the rules: they are compared at once. Does not block.
  void RepairSoon();
  // Sends everything as one complete change, now. Does not block.
  void ApplyAll();
  // The back end's, taken between two changes. kUnavailable before Start() and at the end.
  Result<std::string> Dump();

  std::optional<netproxy::ServiceExplanation> Explain(const model::ServiceName& name) const;
  ServiceProxyHealth Health() const;
  // Fills in what the driver knows of the moment.
  void Describe(ProxyMetrics::Now& now) const;
  // Called with what there is now, and then whenever it changes, from the driver's thread; must not
  // block. After a call with an empty function the former listener is called no more.
  void SetHealthCheckListener(std::function<void(const HealthChecks&)> listener);
  // False when the back end is not in step within `patience`.
  bool WaitUntilApplied(std::chrono::milliseconds patience) const;

 private:
  using Steady = std::chrono::steady_clock;
  using Report = std::map<model::ServiceName, std::vector<std::string>>;

  void Run();
  bool IsDue() const { return resend_ || tracker_.HasChanges(); }
  Steady::time_point NextWork() const;
  void Sync(std::unique_lock<std::mutex>& lock);
  void RunDumps(std::unique_lock<std::mutex>& lock);
  void Repair(std::unique_lock<std::mutex>& lock);
  void RetryRefused(std::unique_lock<std::mutex>& lock);
  void Apply(std::unique_lock<std::mutex>& lock, const model::ServiceChange& change);
  void NoteSuccess(const model::ServiceChange& change, const ServiceApplied& applied);
  void NoteFailure(const Error& error);
  void NoteRefused(const model::ServiceChange& change, const ServiceApplied& applied);
  // What has to be told since the last call.
  Report TakeReport();
  void Tell(std::unique_lock<std::mutex>& lock, bool health_checks_changed);

  ServiceBackEnd& back_end_;
  const Clock& clock_;
  const ServiceDriverOptions options_;
  const ServiceDriverCallbacks callbacks_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  netproxy::ServiceTracker tracker_;
  bool stopping_ = false;
  bool resend_ = false;  // the back end needs everything
  bool applying_ = false;
  bool started_ = false;
  std::vector<std::shared_ptr<std::promise<Result<std::string>>>> dumps_;  // who waits for one
  Steady::time_point retry_at_;
  Steady::time_point repair_at_;
  Steady::time_point repaired_at_;
  std::chrono::milliseconds retry_delay_;
  ServiceProxyHealth health_;
  std::vector<WallTime> triggers_;  // of what the kernel has not taken yet
  std::map<model::ServiceName, std::vector<std::string>> problems_;  // of the table
  std::map<model::ServicePortKey, std::string> refused_;             // by the back end
  Report told_;
  std::set<model::ServiceName> to_tell_;
  std::vector<std::string> lines_;  // to be logged

  std::mutex listener_mutex_;  // held while it is called; taken before mutex_, never within
  std::function<void(const HealthChecks&)> listener_;
  std::thread thread_;
};

}  // namespace holdfast::agent
