// SPDX-License-Identifier: Apache-2.0
// Services.
#include "k8s/core/v1/service.pb.h"

#include <algorithm>
#include <set>
#include <utility>

#include "agent/kube/validation/addresses.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "agent/kube/validation/validate.h"

namespace holdfast::agent::kube {
namespace {

constexpr int32_t kLongestAffinity = 86400;
constexpr char kNone[] = "None";

bool HasNodePorts(const corev1::ServiceSpec& spec) {
  return spec.type() == "NodePort" || spec.type() == "LoadBalancer";
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
  CheckPortReference(port.targetport(), Child(here, "targetPort"), report);
  if (port.has_appprotocol()) {
    report->InvalidEach(Child(here, "appProtocol"), port.appprotocol(),
                        CheckQualifiedName(port.appprotocol()));
  }
  if (port.nodeport() == 0) return;
  if (HasNodePorts(spec)) CheckPortNumber(port.nodeport(), Child(here, "nodePort"), report);
  if (spec.type() == "ClusterIP") {
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

// Text that is an address in the family of its place.
void CheckFamilyOfAddresses(const corev1::ServiceSpec& spec, const std::string& path,
                            Report* report) {
  for (int i = 0; i < std::min(spec.clusterips_size(), spec.ipfamilies_size()); ++i) {
    const std::string& family = spec.ipfamilies(i);
    const bool other = (family == "IPv4" && IsIpv6(spec.clusterips(i))) ||
                       (family == "IPv6" && !IsIpv6(spec.clusterips(i)));
    if (!other) continue;
    report->Invalid(Index(path, i), spec.clusterips(i),
                    StrCat("expected an ", family, " value as indicated by `ipFamilies[", i, "]`"));
  }
}

void CheckAddresses(const corev1::ServiceSpec& spec, const std::string& path, Report* report) {
  const size_t before = report->size();
  for (int i = 0; i < spec.clusterips_size(); ++i) {
    if (i > 0 || spec.clusterips(i) != kNone) {
      CheckAddress(spec.clusterips(i), Index(path, i), report);
    } else if (spec.clusterips_size() > 1) {
      report->InvalidLiteral(path, ShownList(spec.clusterips()),
                             "'None' must be the first and only value");
    }
  }
  const bool readable = report->size() == before;
  if (spec.clusterips_size() > 2) {
    report->InvalidLiteral(path, ShownList(spec.clusterips()), "may only hold up to 2 values");
  }
  if (!readable) return;
  const bool dual =
      spec.clusterips_size() == 2 && IsIpv6(spec.clusterips(0)) != IsIpv6(spec.clusterips(1));
  if (spec.clusterips_size() > 1 && !dual) {
    report->InvalidLiteral(path, ShownList(spec.clusterips()),
                           "may specify no more than one IP for each IP family");
  }
  const bool headless = spec.clusterips_size() == 1 && spec.clusterips(0) == kNone;
  if (!headless) CheckFamilyOfAddresses(spec, path, report);
}

void CheckClusterIps(const corev1::ServiceSpec& spec, Report* report) {
  const std::string path = "spec.clusterIPs";
  const std::string& first = spec.clusterip();
  if (first == kNone && HasNodePorts(spec)) {
    report->Invalid(Index(path, 0), kNone,
                    StrCat("may not be set to 'None' for ", spec.type(), " services"));
  }
  if (spec.clusterips().empty() && !first.empty()) {  // what the API server makes of it
    corev1::ServiceSpec normal = spec;
    normal.add_clusterips(first);
    return CheckAddresses(normal, path, report);
  }
  if (spec.clusterips().empty()) return;
  if (first.empty()) {
    report->InvalidLiteral(path, ShownList(spec.clusterips()),
                           "must be empty when `clusterIP` is not specified");
  } else if (spec.clusterips(0) != first) {
    report->InvalidLiteral(path, ShownList(spec.clusterips()),
                           "first value must match `clusterIP`");
  }
  CheckAddresses(spec, path, report);
}

// One family is what a Service has unless it asks for two; judged when all else about them is
// right.
void CheckOneFamily(const corev1::ServiceSpec& spec, Report* report) {
  if (spec.has_ipfamilypolicy() && spec.ipfamilypolicy() != "SingleStack") return;
  const std::string value = spec.has_ipfamilypolicy() ? Quoted(spec.ipfamilypolicy()) : "null";
  constexpr char kMustBe[] = "must be 'RequireDualStack' or 'PreferDualStack' when multiple ";
  if (spec.clusterips_size() == 2) {
    report->InvalidLiteral("spec.ipFamilyPolicy", value,
                           StrCat(kMustBe, "cluster IPs are specified"));
  }
  if (spec.ipfamilies_size() == 2) {
    report->InvalidLiteral("spec.ipFamilyPolicy", value,
                           StrCat(kMustBe, "IP families are specified"));
  }
}

// A name stands in place of all addresses.
void CheckExternalName(const corev1::ServiceSpec& spec, Report* report) {
  constexpr char kNotHere[] = "may not be set for ExternalName services";
  if (!spec.clusterip().empty() || !spec.clusterips().empty()) {
    report->Forbidden("spec.clusterIPs", kNotHere);
  }
  if (!spec.ipfamilies().empty()) report->Forbidden("spec.ipFamilies", kNotHere);
  if (spec.has_ipfamilypolicy()) report->Forbidden("spec.ipFamilyPolicy", kNotHere);
  std::string name = spec.externalname();
  if (name.ends_with('.')) name.pop_back();
  if (name.empty()) return report->Required("spec.externalName");
  report->InvalidEach("spec.externalName", name, CheckDns1123Subdomain(name));
}

void CheckFamilies(const corev1::ServiceSpec& spec, Report* report) {
  std::set<std::string> seen;
  for (int i = 0; i < spec.ipfamilies_size(); ++i) {
    const std::string here = Index("spec.ipFamilies", i);
    report->OneOfShown(here, spec.ipfamilies(i), {"IPv4", "IPv6"});
    if (!seen.insert(spec.ipfamilies(i)).second) report->Duplicate(here, spec.ipfamilies(i));
  }
  if (spec.has_ipfamilypolicy()) {
    report->OneOfShown("spec.ipFamilyPolicy", spec.ipfamilypolicy(),
                       {"PreferDualStack", "RequireDualStack", "SingleStack"});
  }
}

void CheckAffinity(const corev1::ServiceSpec& spec, Report* report) {
  if (!report->OneOf("spec.sessionAffinity", spec.sessionaffinity(), {"ClientIP", kNone})) return;
  if (spec.sessionaffinity() != "ClientIP") return;
  const int32_t seconds = spec.sessionaffinityconfig().clientip().timeoutseconds();
  if (seconds < 1 || seconds > kLongestAffinity) {
    report->InvalidNumber("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds,
                          StrCat("must be greater than 0 and less than ", kLongestAffinity));
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

void CheckHealthCheckPort(const corev1::ServiceSpec& spec, Report* report) {
  if (spec.healthchecknodeport() == 0) return;
  const std::string path = "spec.healthCheckNodePort";
  if (spec.type() == "LoadBalancer" && spec.externaltrafficpolicy() == "Local") {
    CheckPortNumber(spec.healthchecknodeport(), path, report);
  } else {
    report->InvalidNumber(path, spec.healthchecknodeport(),
                          "may only be set when `type` is 'LoadBalancer' and "
                          "`externalTrafficPolicy` is 'Local'");
  }
}

void CheckPolicies(const corev1::ServiceSpec& spec, Report* report) {
  const bool external =
      HasNodePorts(spec) || (spec.type() == "ClusterIP" && spec.externalips_size() > 0);
  const std::string& policy = spec.externaltrafficpolicy();
  if (!policy.empty() && !external) {
    report->Invalid("spec.externalTrafficPolicy", policy,
                    "may only be set for externally-accessible services");
  } else if (!policy.empty()) {
    report->OneOf("spec.externalTrafficPolicy", policy, {"Cluster", "Local"});
  }
  CheckHealthCheckPort(spec, report);
  if (spec.has_internaltrafficpolicy()) {
    report->OneOfShown("spec.internalTrafficPolicy", spec.internaltrafficpolicy(),
                       {"Cluster", "Local"});
  }
  if (spec.has_trafficdistribution()) {
    report->OneOfShown("spec.trafficDistribution", spec.trafficdistribution(),
                       {"PreferClose", "PreferSameZone", "PreferSameNode"});
  }
}

void CheckBalancer(const corev1::ServiceSpec& spec, Report* report) {
  constexpr char kOnly[] = "may only be used when `type` is 'LoadBalancer'";
  const bool balanced = spec.type() == "LoadBalancer";
  if (spec.has_allocateloadbalancernodeports() && !balanced) {
    report->Forbidden("spec.allocateLoadBalancerNodePorts", kOnly);
  }
  if (!spec.has_loadbalancerclass()) return;
  const std::string path = "spec.loadBalancerClass";
  if (!balanced) return report->Forbidden(path, kOnly);
  report->InvalidEach(path, spec.loadbalancerclass(), CheckQualifiedName(spec.loadbalancerclass()));
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
  CheckObjectMeta(service.metadata(), CheckDns1123Label, "metadata", &report);
  report.OneOf("spec.type", spec.type(), {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"});
  CheckServicePorts(spec, &report);
  CheckLabels(Sorted(spec.selector()), "spec.selector", &report);
  if (spec.type() == "ExternalName") {
    CheckExternalName(spec, &report);
  } else {
    const size_t before = report.size();
    CheckClusterIps(spec, &report);
    CheckFamilies(spec, &report);
    if (report.size() == before) CheckOneFamily(spec, &report);
  }
  CheckAffinity(spec, &report);
  CheckExternal(spec, &report);
  CheckBalancer(spec, &report);
  CheckPolicies(spec, &report);
  CheckIngress(service.status(), &report);
  return report.Take();
}

}  // namespace holdfast::agent::kube
