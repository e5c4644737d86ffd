// SPDX-License-Identifier: Apache-2.0
// Rules for IP addresses in Services and EndpointSlices. Pure but for the report.
#pragma once

#include <optional>
#include <string>

#include "agent/kube/validation/report.h"
#include "holdfast/base/ip_address.h"

namespace holdfast::agent::kube {

bool IsIpv6(const std::string& address);
void CheckAddress(const std::string& address, const std::string& path, Report* report);
// One that packets may be sent to: neither unspecified, loopback, link-local nor multicast.
void CheckUsableAddress(const std::string& address, const std::string& path, Report* report);
// "192.0.2.0/24", also "192.0.2.7/24", as the API server reads ranges.
std::optional<Cidr> ReadRange(const std::string& range);
void CheckRange(const std::string& range, const std::string& path, Report* report);

}  // namespace holdfast::agent::kube
