// SPDX-License-Identifier: Apache-2.0
// A pod thrown with dice, and what its containers do when they run: init containers, sidecars, main and ephemeral
// ones, restart policies of every kind, probes, hooks, a deadline; and what others do to it: resizes, other images, an
// end. In the end each container serves or has ended for good, so that every pod comes to rest.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
  // Not ready again for a while, after its start.
  std::optional<std::pair<std::chrono::milliseconds, std::chrono::milliseconds>> unready = {};
  std::optional<std::chrono::milliseconds> dies_after =
      {};  // of a stop signal; none: it ignores it
  int code_when_stopped = 143;
};

// What the object of an API server says from some moment on.
struct Wish {
  enum class What : uint8_t { kCpu, kImage };
  What what = What::kCpu;
  std::chrono::seconds after{0};
  std::string container = {};
  std::string value = {};
  // Of other amounts: when the node has room for them (at once: 0); never: what there is of it is less.
  std::chrono::seconds room_after{0};
  bool infeasible = false;
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
  std::string eviction_reason = "Evicted";
  bool disrupts = false;  // a condition tells of the eviction
  // Of an API server: somebody else writes its end into its status.
  std::optional<std::chrono::seconds> ended_elsewhere_after = {};
  std::vector<Wish> wishes;  // in the order of their time
  // What it waits for: a network, the secrets of its images, what says how its sandbox is made.
  std::chrono::milliseconds network_after{0}, secrets_after{0}, sandbox_after{0};
  bool forced = false;  // of an API server: the object goes at once
};

// Why it ended, where somebody else says so.
inline constexpr char kElsewhere[] = "Elsewhere";

RandomPod ThrowPod(Dice& dice);

// Of an init container, a sidecar or a main container; null: it has none of that name.
const corev1::Container* SpecOf(const corev1::Pod& pod, const std::string& name);

}  // namespace holdfast::agent::orders
