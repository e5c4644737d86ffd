// SPDX-License-Identifier: Apache-2.0
// The environment variables by which containers find Services, as a kubelet makes them. Pure.
// Source: feature-map 1.22.5.
#pragma once

#include <string>
#include <vector>

#include "agent/proxy/service_view.h"

namespace holdfast::agent {

// "WEB_SERVICE_HOST=10.96.0.7", …; headless Services and those without an address have none.
std::vector<std::string> VariablesOf(const corev1::Service& service);

}  // namespace holdfast::agent
