// SPDX-License-Identifier: Apache-2.0
// PodReporter: carries the status of pods to the API server: of those that came from it, whose objects it ends, and of
// static pods to their mirrors. Thread-safe; nothing here blocks. Source: join.md 1.3 ("Status"), control-plane.md section 5.
#pragma once

#include <memory>

#include "agent/kube/types_fwd.h"
#include "agent/source/pod_origin.h"
#include "holdfast/base/ids.h"

namespace k8s::io::api::core::v1 {
class PodStatus;
}

namespace holdfast::agent {

struct PodReport {
  std::shared_ptr<const corev1::Pod> pod;                           // whose it is: names and UID
  std::shared_ptr<const k8s::io::api::core::v1::PodStatus> status;  // as it is here
  bool released = false;  // nothing of it runs or is mounted any more: its object may go
  PodOrigin origin = PodOrigin::kApi;
};

class PodReporter {
 public:
  virtual ~PodReporter() = default;
  // The newest wins. A terminal phase must be on the disk before.
  virtual void Report(PodReport report) = 0;
  // The pod is gone: with its object, or with its manifest.
  virtual void Forget(const PodUid& uid) = 0;
};

}  // namespace holdfast::agent
