// SPDX-License-Identifier: Apache-2.0
// Rules for names: what is wrong with one, worded as Kubernetes words it; empty when nothing is.
// Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::kube {

using Faults = std::vector<std::string>;

Faults CheckDns1123Label(std::string_view name);
Faults CheckDns1123Subdomain(std::string_view name);
Faults CheckDns1123SubdomainWithUnderscore(std::string_view name);
bool IsSubdomainOfAnyCase(std::string_view name);  // also with capitals; labels up to 63 characters
Faults CheckDns1035Label(std::string_view name);
Faults CheckQualifiedName(std::string_view name);  // label and annotation keys
Faults CheckLabelValue(std::string_view value);
Faults CheckPortName(std::string_view name);  // IANA service name
Faults CheckEnvName(std::string_view name);
Faults CheckConfigKey(std::string_view key);
Faults CheckHttpHeaderName(std::string_view name);
// An address that everybody reads alike: neither with leading zeros nor an IPv4 address in IPv6.
Faults CheckIpAddress(std::string_view address);

// "must be between 1 and 65535, inclusive"
std::string InclusiveRange(int64_t low, int64_t high);

}  // namespace holdfast::agent::kube
