// SPDX-License-Identifier: Apache-2.0
// A pod thrown with dice, and what its containers do when they run: init containers, sidecars, main and ephemeral
// ones, restart policies of every kind, probes, hooks, a deadline. In the end each container serves or has ended for
// good, so that every pod comes to rest.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/source/pod_origin.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/unit/agent/pod/orders/dice.h"

namespace holdfast::agent::orders {

namespace corev1 = ::k8s::io::api::core::v1;

enum class Part : uint8_t { kInit, kSidecar, kMain, kEphemeral };

// One run of a container.
struct Run {
  std::optional<std::chrono::milliseconds> lasts = {};  // none: until it is stopped
  int exit_code = 0;
  std::optional<std::chrono::milliseconds> sick_after = {};  // a probe fails from then on
};

struct Script {
  Part part = Part::kMain;
  std::vector<Run> runs;  // the last one is that of all later runs, too
  std::chrono::milliseconds started_after{0};
  std::chrono::milliseconds ready_after{0};
  std::optional<std::chrono::milliseconds> dies_after =
      {};  // of a stop signal; none: it ignores it
  int code_when_stopped = 143;
};

struct RandomPod {
  corev1::Pod pod;
  PodOrigin origin = PodOrigin::kFile;
  std::map<std::string, Script> scripts;
  bool rejected = false;      // the node does not take it
  bool restarts_all = false;  // a container has a rule that restarts all
  bool image_is_here = true;  // otherwise it is pulled
  std::optional<std::chrono::seconds> deleted_after = {};
  std::chrono::seconds deletion_grace{30};
  std::optional<std::chrono::seconds> shortened_after =
      {};  // a second deletion, with a second's grace
  std::optional<std::chrono::seconds> evicted_after = {};
  bool forced = false;  // of an API server: the object goes at once
};

RandomPod ThrowPod(Dice& dice);

}  // namespace holdfast::agent::orders
