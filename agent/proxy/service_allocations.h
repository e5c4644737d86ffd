// SPDX-License-Identifier: Apache-2.0
// ServiceAllocations: what an API server would give a Service that leaves it open: cluster IPs out of the
// service ranges, node ports, the health check's port, UID and creation time. Recorded on disk
// before it is used, many services with one sync, and kept until Forget(): the same service keeps
// its addresses over restarts and edits. Single-thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "agent/proxy/record_log.h"
#include "agent/proxy/service_completion.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

class ServiceAllocations {
 public:
  // Reads what was recorded in `directory`, which is made when it is not there. What cannot be read
  // is named in TakeWarnings().
  static Result<ServiceAllocations> Open(const std::string& directory, ServiceRanges ranges,
                                         const Clock& clock);

  // Fills in what `service` leaves open, and takes out of it what it may not have: somebody else's
  // address or port, one outside the ranges. Call it for services that ask for an address of their
  // choice before those that take any. It may be used when IsRecorded() says so.
  std::vector<ServiceTrouble> Complete(corev1::Service* service);
  // Its addresses and ports are free. Nothing recorded is success.
  void Forget(const model::ServiceName& name);
  // Puts everything since the last one on the disk; what could not be put there waits for the next.
  Result<void> Sync();
  // What the service last got is on the disk.
  bool IsRecorded(const model::ServiceName& name) const { return !unsynced_.contains(name); }

  bool Knows(const model::ServiceName& name) const { return records_.contains(name); }
  std::vector<model::ServiceName> Names() const;
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

 private:
  ServiceAllocations(RecordLog log, ServiceRanges ranges, const Clock& clock)
      : log_(std::move(log)), ranges_(std::move(ranges)), clock_(&clock) {}
  void ReadLines();
  Result<void> TakeOverFiles(int directory);
  void Set(const model::ServiceName& name, ServiceRecord record);
  std::vector<std::string> AllLines() const;

  RecordLog log_;
  ServiceRanges ranges_;
  const Clock* clock_;
  std::map<model::ServiceName, ServiceRecord> records_;
  std::set<model::ServiceName> unsynced_;
  TakenAddresses taken_;
  std::vector<std::string> warnings_;
};

}  // namespace holdfast::agent
