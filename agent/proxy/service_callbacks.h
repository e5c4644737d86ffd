// SPDX-License-Identifier: Apache-2.0
// What whoever knows the Services has to tell. Called from its threads, without a lock held; must not call back.
#pragma once

#include <functional>
#include <string>

#include "agent/kube/types_fwd.h"
#include "agent/proxy/service_completion.h"

namespace holdfast::agent {

struct ServiceCallbacks {
  // What a service newly could not get, or has no rules for.
  std::function<void(const corev1::Service&, const ServiceTrouble&)> trouble;
  std::function<void(const std::string& line)> log;
};

}  // namespace holdfast::agent
