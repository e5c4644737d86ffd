// SPDX-License-Identifier: Apache-2.0
// EndpointSlices.
#include "k8s/discovery/v1/endpoint_slice.pb.h"

#include <set>

#include "agent/kube/validation/addresses.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/validate.h"

namespace holdfast::agent::kube {
namespace {

constexpr int kMostEndpoints = 1000;
constexpr int kMostPorts = 20000;
constexpr int kMostAddresses = 100;

void CheckEndpoint(const discoveryv1::EndpointSlice& slice, const discoveryv1::Endpoint& endpoint,
                   const std::string& here, Report* report) {
  const std::string path = Child(here, "addresses");
  if (endpoint.addresses().empty()) {
    report->Required(path, "must contain at least 1 address");
  } else if (endpoint.addresses_size() > kMostAddresses) {
    report->TooMany(path, endpoint.addresses_size(), kMostAddresses);
  }
  for (int i = 0; i < endpoint.addresses_size(); ++i) {
    const std::string& address = endpoint.addresses(i);
    if (slice.addresstype() == "FQDN") {
      report->InvalidEach(Index(path, i), address, CheckDns1123Subdomain(address));
      continue;
    }
    const size_t before = report->size();
    CheckUsableAddress(address, Index(path, i), report);
    if (report->size() == before && IsIpv6(address) != (slice.addresstype() == "IPv6")) {
      report->Invalid(Index(path, i), address,
                      StrCat("must be an ", slice.addresstype(), " address"));
    }
  }
  if (endpoint.has_nodename() && !endpoint.nodename().empty()) {
    report->InvalidEach(Child(here, "nodeName"), endpoint.nodename(),
                        CheckDns1123Subdomain(endpoint.nodename()));
  }
}

void CheckSlicePorts(const discoveryv1::EndpointSlice& slice, Report* report) {
  if (slice.ports_size() > kMostPorts) report->TooMany("ports", slice.ports_size(), kMostPorts);
  std::set<std::string> names;
  for (int i = 0; i < slice.ports_size(); ++i) {
    const discoveryv1::EndpointPort& port = slice.ports(i);
    const std::string here = Index("ports", i);
    if (!port.name().empty()) {
      report->InvalidEach(Child(here, "name"), port.name(), CheckDns1123Label(port.name()));
    }
    if (!names.insert(port.name()).second) report->Duplicate(Child(here, "name"), port.name());
    if (port.has_protocol()) {
      report->OneOf(Child(here, "protocol"), port.protocol(), {"SCTP", "TCP", "UDP"});
    }
    if (port.has_port() && (port.port() < 1 || port.port() > 65535)) {
      report->InvalidNumber(Child(here, "port"), port.port(), InclusiveRange(1, 65535));
    }
  }
}

}  // namespace

FieldErrors ValidateEndpointSlice(const discoveryv1::EndpointSlice& slice) {
  Report report;
  CheckObjectMeta(slice.metadata(), CheckDns1123Subdomain, "metadata", &report);
  if (report.OneOf("addressType", slice.addresstype(), {"FQDN", "IPv4", "IPv6"})) {
    if (slice.endpoints_size() > kMostEndpoints) {
      report.TooMany("endpoints", slice.endpoints_size(), kMostEndpoints);
    }
    for (int i = 0; i < slice.endpoints_size(); ++i) {
      CheckEndpoint(slice, slice.endpoints(i), Index("endpoints", i), &report);
    }
  }
  CheckSlicePorts(slice, &report);
  return report.Take();
}

}  // namespace holdfast::agent::kube
