// SPDX-License-Identifier: Apache-2.0
// The environment variables by which containers find Services, as a kubelet makes them. Pure.
// Source: feature-map 1.22.5.
#pragma once

#include <string>
#include <vector>

#include "agent/proxy/service_catalog.h"
#include "agent/proxy/service_view.h"

namespace holdfast::agent {

// "WEB_SERVICE_HOST=10.96.0.7", …; headless Services and those without an address have none.
std::vector<std::string> VariablesOf(const corev1::Service& service);

// What a container of that namespace is told: of the API server's Service, and of its namespace's
// where it wants `links` (enableServiceLinks).
std::vector<std::string> VariablesIn(const ServiceCatalog& catalog, const std::string& of_namespace,
                                     bool links);

}  // namespace holdfast::agent
