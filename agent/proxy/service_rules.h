// SPDX-License-Identifier: Apache-2.0
// ServiceRules: the back end of the proxy mode in force, and what belongs to it in every mode:
// stale flows go after the rules, news of somebody else's hand, another mode's rules that are left.
//
// A mode is changed with a complete change: first the new mode's rules come, then the old one's go.
// Connections stay, for they are the connection table's. A mode that cannot be opened, or does not
// take the rules, is told, and the one before goes on.
//
// One thread calls what ServiceBackEnd has (the driver's); the rest is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/proxy/back_ends.h"
#include "agent/proxy/fd_thread.h"
#include "agent/proxy/mode_record.h"
#include "agent/proxy/proxy_metrics.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "netproxy/conntrack/stale_flows.h"

namespace holdfast::agent {

struct ServiceRulesOptions {
  std::string mode;
  std::string record;  // file of the ModeRecord
  std::function<Result<OpenedBackEnd>(const std::string& mode)> open;
  // Takes a mode's rules away on a node that cannot have the mode any more; nullopt: open it for
  // that.
  std::function<Result<std::optional<bool>>(const std::string& mode)> remove_unopened;
  std::function<void(const std::string& line)> log;
  std::shared_ptr<ProxyMetrics> metrics = std::make_shared<ProxyMetrics>();
};

class ServiceRules : public ServiceBackEnd {
 public:
  // Opens the mode, so that one that this node cannot have is an error here. `flows` may be absent.
  static Result<std::unique_ptr<ServiceRules>> Open(ServiceRulesOptions options,
                                                    std::optional<netproxy::StaleFlows> flows);
  ~ServiceRules() override;

  // With the next complete change. False when it is in force already.
  bool SetMode(const std::string& mode);
  std::string mode() const;  // in force
  // Called when somebody else touched the rules, from a thread of ours; must not block. After a
  // call with an empty function the former one is called no more.
  void SetTouchedListener(std::function<void()> listener);

  Result<ServiceApplied> Apply(const model::ServiceChange& change) override;
  Result<uint64_t> Repair() override;
  // Of every mode that may have some.
  Result<bool> Remove() override;
  Result<std::string> Dump() override;

 private:
  struct Current {
    std::string mode;
    std::unique_ptr<ServiceBackEnd> back_end;
    std::shared_ptr<RulesWatch> watch;
    std::unique_ptr<FdThread> watcher;  // of `watch`
  };

  ServiceRules(ServiceRulesOptions options, ModeRecord record,
               std::optional<netproxy::StaleFlows> flows)
      : options_(std::move(options)),
        record_(std::move(record)),
        flows_(std::move(flows)),
        wanted_(options_.mode) {}
  Result<Current> OpenMode(const std::string& mode);
  Result<ServiceApplied> ApplyRules(const model::ServiceChange& change);
  Result<ServiceApplied> ChangeMode(const std::string& mode, const model::ServiceChange& change);
  void RemoveOtherModes();
  Result<bool> RemoveMode(const std::string& mode);
  void RecordFlows(const model::ServiceChange& change);
  Result<void> DeleteStaleFlows(
      const std::function<Result<size_t>(netproxy::StaleFlows&)>& deletion);
  bool Touched(RulesWatch& watch);

  const ServiceRulesOptions options_;
  ModeRecord record_;
  std::optional<netproxy::StaleFlows> flows_;
  std::map<std::string, std::unique_ptr<ServiceBackEnd>> retired_;  // by mode; to be removed
  std::string removal_error_;                                       // of the last try, told once
  std::string record_error_;                                        // the same

  std::atomic<bool> touched_ = false;  // by somebody else, since the last Repair()
  std::mutex listener_mutex_;          // held while it is called
  std::function<void()> listener_;
  mutable std::mutex mode_mutex_;
  std::string wanted_;
  std::string in_force_;

  Current current_;  // last: its thread uses the rest
};

}  // namespace holdfast::agent
