// SPDX-License-Identifier: Apache-2.0
// PodReporter: carries the status of pods that came from the API server back to it, and ends their objects. Thread-safe;
// nothing here blocks. Source: join.md 1.3 ("Status"), control-plane.md section 5.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "holdfast/base/ids.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

struct PodReport {
  std::shared_ptr<const k8s::io::api::core::v1::Pod>
      pod;  // as the origin has it: names, UID, deletion
  std::shared_ptr<const k8s::io::api::core::v1::PodStatus> status;  // as it is here
  bool released = false;  // nothing of it runs or is mounted any more: its object may go
};

struct ReportState {
  bool terminal_accepted = false;  // the server has its last phase
  bool object_gone = false;
};

class PodReporter {
 public:
  virtual ~PodReporter() = default;
  // The newest wins.
  virtual void Report(PodReport report) = 0;
  virtual ReportState StateOf(const PodUid& uid) const = 0;
  virtual void Forget(const PodUid& uid) = 0;
  // On the API thread, without a lock held; must not block. {} ends that.
  virtual void SetListener(std::function<void(const PodUid&)> changed) = 0;
};

// Pure: the strategic merge patch from the server's status to ours, "" when nothing differs.
std::string StatusPatch(const PodUid& uid, const k8s::io::api::core::v1::PodStatus& server,
                        const k8s::io::api::core::v1::PodStatus& ours);

}  // namespace holdfast::agent
