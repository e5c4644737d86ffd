// SPDX-License-Identifier: Apache-2.0
// What one line of `get pods` says about a pod. Pure.
#pragma once

#include <string>

#include "holdfast/base/clock.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

struct PodSummary {
  std::string ready;     // "1/2"
  std::string status;    // "Running", "Init:0/1", "CrashLoopBackOff", "Terminating", …
  std::string restarts;  // "3 (10s ago)"
  std::string age;       // "5m12s"
  std::string ip;        // "<none>" when there is none, as the three below
  std::string node;
  std::string nominated_node;
  std::string readiness_gates;  // "1/2"
};

PodSummary Summarize(const k8s::io::api::core::v1::Pod& pod, WallTime now);

// Status "True" of the condition `type`; false also when it is not there.
bool HasCondition(const k8s::io::api::core::v1::Pod& pod, const std::string& type,
                  const std::string& status = "True");

}  // namespace holdfast::agent::cli
