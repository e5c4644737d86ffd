// SPDX-License-Identifier: Apache-2.0
// Services.
#include "k8s/core/v1/service.pb.h"

#include <set>
#include <utility>

#include "agent/kube/validation/addresses.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/validate.h"

namespace holdfast::agent::kube {
namespace {

constexpr int32_t kLongestAffinity = 86400;
constexpr char kNone[] = "None";

bool HasNodePorts(const corev1::ServiceSpec& spec) {
  return spec.type() == "NodePort" || spec.type() == "LoadBalancer";
}

void CheckName(const corev1::Service& service, Report* report) {
  const std::string& name = service.metadata().name();
  if (!name.empty()) report->InvalidEach("metadata.name", name, CheckDns1123Label(name));
}

void CheckPortNumber(int32_t port, const std::string& path, Report* report) {
  if (port < 1 || port > 65535) report->InvalidNumber(path, port, InclusiveRange(1, 65535));
}

void CheckPort(const corev1::ServiceSpec& spec, const corev1::ServicePort& port,
               const std::string& here, Report* report) {
  if (port.name().empty()) {
    if (spec.ports_size() > 1) report->Required(Child(here, "name"));
  } else {
    report->InvalidEach(Child(here, "name"), port.name(), CheckDns1123Label(port.name()));
  }
  CheckPortNumber(port.port(), Child(here, "port"), report);
  report->OneOf(Child(here, "protocol"), port.protocol(), {"SCTP", "TCP", "UDP"});
  if (spec.type() != "ExternalName") {
    CheckPortReference(port.targetport(), Child(here, "targetPort"), report);
  }
  if (port.nodeport() == 0) return;
  CheckPortNumber(port.nodeport(), Child(here, "nodePort"), report);
  if (!HasNodePorts(spec)) {
    report->Forbidden(Child(here, "nodePort"), "may not be used when `type` is 'ClusterIP'");
  }
}

void CheckServicePorts(const corev1::ServiceSpec& spec, Report* report) {
  const bool portless = spec.type() == "ExternalName" || spec.clusterip() == kNone;
  if (spec.ports().empty() && !portless) report->Required("spec.ports");
  std::set<std::string> names;
  std::set<std::pair<std::string, int32_t>> ports, node_ports;
  for (int i = 0; i < spec.ports_size(); ++i) {
    const corev1::ServicePort& port = spec.ports(i);
    const std::string here = Index("spec.ports", i);
    CheckPort(spec, port, here, report);
    if (!port.name().empty() && !names.insert(port.name()).second) {
      report->Duplicate(Child(here, "name"), port.name());
    }
    if (!ports.emplace(port.protocol(), port.port()).second) {
      report->Duplicate(here, StrCat(port.protocol(), " ", port.port()));
    }
    if (port.nodeport() != 0 && !node_ports.emplace(port.protocol(), port.nodeport()).second) {
      report->Duplicate(Child(here, "nodePort"), std::to_string(port.nodeport()));
    }
  }
}

void CheckClusterIps(const corev1::ServiceSpec& spec, Report* report) {
  const std::string& first = spec.clusterip();
  if (spec.type() == "ExternalName") {
    if (!first.empty() && first != kNone) {
      report->Forbidden("spec.clusterIP", "may not be set for ExternalName services");
    }
    return;
  }
  if (first == kNone && HasNodePorts(spec)) {
    report->Invalid("spec.clusterIPs[0]", kNone,
                    StrCat("may not be set to 'None' for ", spec.type(), " services"));
    return;
  }
  if (first == kNone) return;
  if (!first.empty()) CheckAddress(first, "spec.clusterIP", report);
  if (spec.clusterips_size() > 2) report->TooMany("spec.clusterIPs", spec.clusterips_size(), 2);
  for (int i = 0; i < spec.clusterips_size(); ++i) {
    CheckAddress(spec.clusterips(i), Index("spec.clusterIPs", i), report);
  }
  if (spec.clusterips_size() > 0 && spec.clusterips(0) != first) {
    report->Invalid("spec.clusterIPs", spec.clusterips(0), "first value must match `clusterIP`");
  }
  if (spec.clusterips_size() == 2 && IsIpv6(spec.clusterips(0)) == IsIpv6(spec.clusterips(1))) {
    report->Invalid("spec.clusterIPs", spec.clusterips(1),
                    "may specify no more than one IP for each IP family");
  }
}

void CheckFamilies(const corev1::ServiceSpec& spec, Report* report) {
  std::set<std::string> seen;
  for (int i = 0; i < spec.ipfamilies_size(); ++i) {
    const std::string here = Index("spec.ipFamilies", i);
    if (!report->OneOf(here, spec.ipfamilies(i), {"IPv4", "IPv6"})) continue;
    if (!seen.insert(spec.ipfamilies(i)).second) report->Duplicate(here, spec.ipfamilies(i));
  }
  if (spec.has_ipfamilypolicy()) {
    report->OneOf("spec.ipFamilyPolicy", spec.ipfamilypolicy(),
                  {"PreferDualStack", "RequireDualStack", "SingleStack"});
  }
}

void CheckAffinity(const corev1::ServiceSpec& spec, Report* report) {
  if (!report->OneOf("spec.sessionAffinity", spec.sessionaffinity(), {"ClientIP", kNone})) return;
  if (spec.sessionaffinity() != "ClientIP") return;
  const int32_t seconds = spec.sessionaffinityconfig().clientip().timeoutseconds();
  if (seconds < 1 || seconds > kLongestAffinity) {
    report->InvalidNumber("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds,
                          InclusiveRange(1, kLongestAffinity));
  }
}

void CheckExternal(const corev1::ServiceSpec& spec, Report* report) {
  for (int i = 0; i < spec.externalips_size(); ++i) {
    CheckUsableAddress(spec.externalips(i), Index("spec.externalIPs", i), report);
  }
  for (int i = 0; i < spec.loadbalancersourceranges_size(); ++i) {
    CheckRange(spec.loadbalancersourceranges(i), Index("spec.loadBalancerSourceRanges", i), report);
  }
  if (spec.loadbalancersourceranges_size() > 0 && spec.type() != "LoadBalancer") {
    report->Forbidden("spec.loadBalancerSourceRanges",
                      "may only be used when `type` is 'LoadBalancer'");
  }
}

void CheckPolicies(const corev1::ServiceSpec& spec, Report* report) {
  const bool external = HasNodePorts(spec) || spec.externalips_size() > 0;
  const std::string& policy = spec.externaltrafficpolicy();
  if (!policy.empty() && !external) {
    report->Invalid("spec.externalTrafficPolicy", policy,
                    "may only be set for externally-accessible services");
  } else if (!policy.empty()) {
    report->OneOf("spec.externalTrafficPolicy", policy, {"Cluster", "Local"});
  }
  if (spec.healthchecknodeport() != 0) {
    CheckPortNumber(spec.healthchecknodeport(), "spec.healthCheckNodePort", report);
    if (spec.type() != "LoadBalancer" || policy != "Local") {
      report->InvalidNumber("spec.healthCheckNodePort", spec.healthchecknodeport(),
                            "may only be set when `type` is 'LoadBalancer' and "
                            "`externalTrafficPolicy` is 'Local'");
    }
  }
  if (spec.has_internaltrafficpolicy()) {
    report->OneOf("spec.internalTrafficPolicy", spec.internaltrafficpolicy(), {"Cluster", "Local"});
  }
  if (spec.has_trafficdistribution()) {
    report->OneOf("spec.trafficDistribution", spec.trafficdistribution(),
                  {"PreferClose", "PreferSameNode", "PreferSameZone"});
  }
}

void CheckIngress(const corev1::ServiceStatus& status, Report* report) {
  const auto& ingress = status.loadbalancer().ingress();
  for (int i = 0; i < ingress.size(); ++i) {
    const std::string here = Index("status.loadBalancer.ingress", i);
    if (!ingress[i].ip().empty()) CheckAddress(ingress[i].ip(), Child(here, "ip"), report);
    if (ingress[i].has_ipmode()) {
      report->OneOf(Child(here, "ipMode"), ingress[i].ipmode(), {"Proxy", "VIP"});
    }
  }
}

}  // namespace

FieldErrors ValidateService(const corev1::Service& service) {
  Report report;
  const corev1::ServiceSpec& spec = service.spec();
  CheckObjectMeta(service.metadata(), "metadata", &report);
  CheckName(service, &report);
  report.OneOf("spec.type", spec.type(), {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"});
  CheckServicePorts(spec, &report);
  CheckLabels(Sorted(spec.selector()), "spec.selector", &report);
  CheckClusterIps(spec, &report);
  CheckFamilies(spec, &report);
  if (spec.type() == "ExternalName") {
    if (spec.externalname().empty()) {
      report.Required("spec.externalName");
    } else {
      report.InvalidEach("spec.externalName", spec.externalname(),
                         CheckDns1123Subdomain(spec.externalname()));
    }
  }
  CheckAffinity(spec, &report);
  CheckExternal(spec, &report);
  CheckPolicies(spec, &report);
  CheckIngress(service.status(), &report);
  return report.Take();
}

}  // namespace holdfast::agent::kube
