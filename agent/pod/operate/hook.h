// SPDX-License-Identifier: Apache-2.0
// A postStart or preStop hook, carried out by a CheckRunner without a thread of its own.
// Source: Kubernetes' lifecycle/handlers.go.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/pod_operations.h"
#include "agent/probe/check_runner.h"

namespace holdfast::agent {

struct HookInput {
  std::shared_ptr<const corev1::Pod> pod;
  Action action;       // kPostStart or kPreStop
  std::string pod_ip;  // where an httpGet goes that names no host
  // For how long a sleep has been going on, by what a former agent remembers.
  std::chrono::nanoseconds slept{0};
  std::function<void()> sleep_given_up = {};  // told when a sleep is, on the runner's thread
};

bool IsHook(Action::Kind kind);

// The event of an HTTPS hook that was answered over HTTP.
inline constexpr char kHookFellBack[] = "LifecycleHTTPFallback";

// Begins it. `ended` takes how it ended, from the runner's thread; the result gives it up.
PodOperations::GiveUp BeginHook(CheckRunner& runner, const HookInput& input,
                                PodOperations::Ended ended);

// What a kubelet shows of one that failed.
std::string HookFailure(const corev1::LifecycleHandler& handler, const corev1::Pod& pod,
                        const std::string& container, const CheckOutcome& outcome);

}  // namespace holdfast::agent
