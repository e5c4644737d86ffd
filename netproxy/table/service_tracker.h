// SPDX-License-Identifier: Apache-2.0
// ServiceTracker: Services and EndpointSlices in, rows and changes of rows out. A commit costs what
// was set since the last one, whatever the number of services. The rows depend on what is there
// now, not on the order in which it came. Single-thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/model/service.h"
#include "holdfast/model/service_table.h"
#include "netproxy/table/select_endpoints.h"
#include "netproxy/table/service_claims.h"
#include "netproxy/table/service_rows.h"

namespace holdfast::netproxy {

// What a service asked for and did not get; empty: all is well (again).
struct ServiceProblems {
  model::ServiceName name;
  std::vector<std::string> messages;
};

// What a load balancer asks a node at the service's healthCheckNodePort.
struct HealthCheck {
  uint16_t port = 0;
  // Ready endpoints on this node, each address once; by family (IPv4, IPv6).
  size_t local_endpoints[2] = {0, 0};
  bool operator==(const HealthCheck&) const = default;
};

struct ServiceUpdate {
  model::ServiceChange change;
  std::vector<ServiceProblems> problems;  // of services whose problems changed
  bool health_checks_changed = false;
};

// One port of a service as it is at the moment.
struct ExplainedPort {
  model::ServicePort port;
  model::ServicePortRow row;  // frontends: those it has
  struct Lost {
    model::Frontend frontend;
    std::string owner;  // ServicePortKey::name
  };
  std::vector<Lost> lost;
  std::vector<JudgedEndpoint> endpoints;
};

struct ServiceExplanation {
  std::string skipped;  // why there are no rows; "" when there are
  std::vector<std::string> problems;
  std::vector<ExplainedPort> ports;
};

class ServiceTracker {
 public:
  explicit ServiceTracker(TableOptions options = {});

  // Concern the next Commit(). Slices may come before their service; removing what is not there is
  // nothing. Other options cost a rebuild of every row.
  void SetOptions(TableOptions options);
  void SetService(model::Service service);
  void RemoveService(const model::ServiceName& name);
  void SetSlice(model::EndpointSlice slice);
  void RemoveSlice(const std::string& slice_namespace, const std::string& slice_name);

  // How many calls changed something, ever, and since the last Commit().
  struct Changes {
    uint64_t services = 0;
    uint64_t slices = 0;
  };
  const Changes& changes() const { return changes_; }
  const Changes& pending_changes() const { return pending_; }

  bool HasChanges() const { return !dirty_.empty() || settings_changed_; }
  ServiceUpdate Commit();
  // Every row, as a change that knows nothing of what was before; for a back end that starts.
  model::ServiceChange Complete() const;

  const std::map<model::ServiceName, HealthCheck>& health_checks() const { return health_checks_; }
  std::vector<model::ServiceName> Names() const;  // of the services, sorted
  const model::Service* Find(const model::ServiceName& name) const;
  // Nothing when there is no such service. As of the last Commit().
  std::optional<ServiceExplanation> Explain(const model::ServiceName& name) const;

 private:
  using Claim = std::pair<FrontendKey, Claimant>;
  struct Entry {
    std::optional<model::Service> service;
    std::map<std::string, model::EndpointSlice> slices;  // by name
    std::vector<Claim> claims;                           // sorted
    bool claims_stale = true;  // slices say nothing about addresses, so they leave it alone
    std::vector<model::ServicePortRowPtr> rows;  // sorted by key
    std::vector<std::string> problems;
  };
  using Rebuilt = std::map<model::ServiceName, BuiltRows>;

  static std::vector<const model::EndpointSlice*> Slices(const Entry& entry);
  BuiltRows Build(const Entry& entry) const;
  static std::vector<Claim> ClaimsOf(const Entry& entry, const BuiltRows& built);
  void UpdateClaims(Entry& entry, std::vector<Claim> wanted,
                    std::set<model::ServiceName>& affected);
  bool Owns(const model::ServicePortRow& row, const model::Frontend& frontend) const;
  void Emit(const model::ServiceName& name, BuiltRows built, ServiceUpdate& update);
  static void Compare(Entry& entry, std::vector<model::ServicePortRowPtr> rows,
                      model::ServiceChange& change);
  void NoteServiceChange();
  void NoteSliceChange();
  void UpdateHealthCheck(const model::ServiceName& name, const Entry& entry, ServiceUpdate& update);

  TableOptions options_;
  bool settings_changed_ = true;
  bool complete_next_ = true;
  Changes changes_;
  Changes pending_;
  uint64_t version_ = 0;
  std::map<model::ServiceName, Entry> entries_;
  std::map<std::pair<std::string, std::string>, model::ServiceName> slice_owner_;
  std::set<model::ServiceName> dirty_;
  ClaimBook claims_;
  std::map<model::ServiceName, HealthCheck> health_checks_;
};

}  // namespace holdfast::netproxy
