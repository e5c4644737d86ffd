// SPDX-License-Identifier: Apache-2.0
// ServiceBook: what an API server would give a Service that leaves it open: cluster IPs out of the
// service ranges, node ports, the health check's port, UID and creation time. Recorded on disk
// before it is used, one file per service, and kept until Forget(): the same service keeps its
// addresses over restarts and edits. Single-thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "agent/proxy/service_completion.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

class ServiceBook {
 public:
  // Reads what was recorded in `directory`, which is made when it is not there. A record that
  // cannot be read is named in TakeWarnings() and left alone.
  static Result<ServiceBook> Open(const std::string& directory, ServiceRanges ranges,
                                  const Clock& clock);

  // Fills in what `service` leaves open, and takes out of it what it may not have: somebody else's
  // address or port, one outside the ranges. An error means that nothing could be recorded; the
  // service must not be used then. Call it for services that ask for an address of their choice
  // before those that take any. Not `durable`: nor may it be used before Sync().
  Result<std::vector<ServiceTrouble>> Complete(corev1::Service* service, bool durable = true);
  // Everything that was recorded is on the disk; for many services at once.
  Result<void> Sync();
  // Its addresses and ports are free. Nothing recorded is success.
  Result<void> Forget(const model::ServiceName& name);

  bool Knows(const model::ServiceName& name) const { return records_.contains(name); }
  std::vector<model::ServiceName> Names() const;
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }

 private:
  ServiceBook(DirFd directory, ServiceRanges ranges, const Clock& clock)
      : directory_(std::move(directory)), ranges_(std::move(ranges)), clock_(&clock) {}
  Result<void> Load();
  static Result<ServiceRecord> Decode(const std::string& text);
  static std::string Encode(const ServiceRecord& record);

  DirFd directory_;
  ServiceRanges ranges_;
  const Clock* clock_;
  std::map<model::ServiceName, ServiceRecord> records_;
  TakenAddresses taken_;
  std::vector<std::string> warnings_;
  bool synced_ = true;
};

}  // namespace holdfast::agent
