// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "agent/cli/describe.h"
#include "agent/cli/or_none.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

void LineIfSet(DescribeWriter& out, const char* name, const std::string& value) {
  if (!value.empty()) out.Line(0, name, value);
}

std::string Ingress(const core::LoadBalancerStatus& status) {
  std::string out;
  for (const core::LoadBalancerIngress& ingress : status.ingress()) {
    out += StrCat(out.empty() ? "" : ", ", ingress.ip().empty() ? ingress.hostname() : ingress.ip(),
                  ingress.ipmode().empty() ? "" : StrCat(" (", ingress.ipmode(), ")"));
  }
  return out;
}

void DescribeAddresses(const core::Service& service, DescribeWriter& out) {
  const core::ServiceSpec& spec = service.spec();
  LineIfSet(out, "IP Family Policy:", spec.ipfamilypolicy());
  out.Line(0, "IP Families:", OrNone(Join(spec.ipfamilies(), ",")));
  out.Line(0, "IP:", spec.clusterip());
  out.Line(0, "IPs:", OrNone(Join(spec.clusterips(), ",")));
  LineIfSet(out, "External IPs:", Join(spec.externalips(), ","));
  LineIfSet(out, "Desired LoadBalancer IP:", spec.loadbalancerip());
  LineIfSet(out, "External Name:", spec.externalname());
  LineIfSet(out, "LoadBalancer Ingress:", Ingress(service.status().loadbalancer()));
}

void DescribePort(const core::ServicePort& port, const std::vector<Slice>& slices,
                  DescribeWriter& out) {
  const std::string name = port.name().empty() ? "<unset>" : port.name();
  const auto number = [&](const auto& what) { return StrCat(what, "/", port.protocol()); };
  out.Row(0, {"Port:", name, number(port.port())});
  const auto& target = port.targetport();
  out.Line(0,
           "TargetPort:", target.type() == 1 ? number(target.strval()) : number(target.intval()));
  if (port.nodeport() != 0) out.Row(0, {"NodePort:", name, number(port.nodeport())});
  std::vector<std::string> endpoints;
  for (const Slice& slice : slices) {
    for (std::string& endpoint : ReadyEndpoints(slice, &port.name())) {
      endpoints.push_back(std::move(endpoint));
    }
  }
  out.Line(0, "Endpoints:", ShownEndpoints(endpoints, false));
}

void DescribePolicies(const core::ServiceSpec& spec, DescribeWriter& out) {
  out.Line(0, "Session Affinity:", spec.sessionaffinity());
  LineIfSet(out, "External Traffic Policy:", spec.externaltrafficpolicy());
  LineIfSet(out, "Internal Traffic Policy:", spec.internaltrafficpolicy());
  LineIfSet(out, "Traffic Distribution:", spec.trafficdistribution());
  if (spec.healthchecknodeport() != 0) {
    out.Line(0, "HealthCheck NodePort:", StrCat(spec.healthchecknodeport()));
  }
  LineIfSet(out, "LoadBalancer Source Ranges:", Join(spec.loadbalancersourceranges(), ","));
}

}  // namespace

std::string DescribeService(const core::Service& service, const std::vector<Slice>& slices,
                            const Events& events, WallTime now) {
  DescribeWriter out;
  out.Line(0, "Name:", service.metadata().name());
  out.Line(0, "Namespace:", service.metadata().namespace_());
  DescribeLabels(service.metadata(), out);
  out.Line(0, "Selector:", SelectorOf(service));
  out.Line(0, "Type:", service.spec().type());
  DescribeAddresses(service, out);
  for (const core::ServicePort& port : service.spec().ports()) DescribePort(port, slices, out);
  DescribePolicies(service.spec(), out);
  DescribeEvents(events, now, out);
  return out.Render();
}

}  // namespace holdfast::agent::cli
