// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int kMostNameservers = 3;
constexpr int kMostSearches = 32;
constexpr size_t kMostSearchCharacters = 2048;
constexpr size_t kHostnameLength = 64;

// A search path may be "." and may have underscores and a dot at its end.
Faults CheckSearch(std::string search) {
  if (search == ".") return {};
  if (search.ends_with('.')) search.pop_back();
  return CheckDns1123SubdomainWithUnderscore(search);
}

void CheckDnsConfig(const corev1::PodDNSConfig& config, const std::string& path, Report* report) {
  const std::string servers = Child(path, "nameservers");
  if (config.nameservers_size() > kMostNameservers) {
    report->InvalidLiteral(servers, ShownList(config.nameservers()),
                           StrCat("must not have more than ", kMostNameservers, " nameservers"));
  }
  for (int i = 0; i < config.nameservers_size(); ++i) {
    report->InvalidEach(Index(servers, i), config.nameservers(i),
                        CheckIpAddress(config.nameservers(i)));
  }
  const std::string searches = Child(path, "searches");
  if (config.searches_size() > kMostSearches) {
    report->InvalidLiteral(searches, ShownList(config.searches()),
                           StrCat("must not have more than ", kMostSearches, " search paths"));
  }
  size_t characters = 0;
  for (int i = 0; i < config.searches_size(); ++i) {
    const std::string& search = config.searches(i);
    characters += search.size() + (i > 0 ? 1 : 0);
    report->InvalidEach(Index(searches, i), search, CheckSearch(search));
  }
  if (characters > kMostSearchCharacters) {
    report->InvalidLiteral(searches, ShownList(config.searches()),
                           StrCat("must not have more than ", kMostSearchCharacters,
                                  " characters (including spaces) in the search list"));
  }
  for (int i = 0; i < config.options_size(); ++i) {
    if (config.options(i).name().empty()) {
      report->Required(Index(Child(path, "options"), i), "must not be empty");
    }
  }
}

void CheckDns(const corev1::PodSpec& spec, Report* report) {
  report->OneOf("spec.dnsPolicy", spec.dnspolicy(),
                {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"});
  if (spec.dnspolicy() == "None" && !spec.has_dnsconfig()) {
    report->Required("spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None");
  } else if (spec.dnspolicy() == "None" && spec.dnsconfig().nameservers().empty()) {
    report->Required("spec.dnsConfig.nameservers",
                     "must provide at least one DNS nameserver when `dnsPolicy` is None");
  } else {
    CheckDnsConfig(spec.dnsconfig(), "spec.dnsConfig", report);
  }
}

void CheckHostname(const corev1::PodSpec& spec, Report* report) {
  if (!spec.hostname().empty()) {
    report->InvalidEach("spec.hostname", spec.hostname(), CheckDns1123Label(spec.hostname()));
  }
  if (!spec.subdomain().empty()) {
    report->InvalidEach("spec.subdomain", spec.subdomain(), CheckDns1123Label(spec.subdomain()));
  }
  if (!spec.has_hostnameoverride()) return;
  const std::string path = "spec.hostnameOverride";
  if (spec.sethostnameasfqdn()) {
    report->Forbidden(path, "may not be specified when setHostnameAsFQDN is true");
  }
  if (spec.hostnetwork()) report->Forbidden(path, "may not be specified when hostNetwork is true");
  if (spec.hostnameoverride().size() > kHostnameLength) report->TooLong(path, kHostnameLength);
  report->InvalidEach(path, spec.hostnameoverride(),
                      CheckDns1123Subdomain(spec.hostnameoverride()));
}

void CheckHostNetworkPorts(const corev1::PodSpec& spec, Report* report) {
  if (!spec.hostnetwork()) return;
  for (int i = 0; i < spec.containers_size(); ++i) {
    for (int k = 0; k < spec.containers(i).ports_size(); ++k) {
      const corev1::ContainerPort& port = spec.containers(i).ports(k);
      if (port.hostport() == port.containerport()) continue;
      report->InvalidNumber(
          Child(Index(Child(Index("spec.containers", i), "ports"), k), "hostPort"), port.hostport(),
          "must match `containerPort` when `hostNetwork` is true");
    }
  }
}

}  // namespace

void CheckPodNetwork(const corev1::PodSpec& spec, Report* report) {
  CheckHostNetworkPorts(spec, report);
  CheckDns(spec, report);
  CheckHostname(spec, report);
  for (int i = 0; i < spec.hostaliases_size(); ++i) {
    const corev1::HostAlias& alias = spec.hostaliases(i);
    const std::string here = Index("spec.hostAliases", i);
    report->InvalidEach(Child(here, "ip"), alias.ip(), CheckIpAddress(alias.ip()));
    for (int k = 0; k < alias.hostnames_size(); ++k) {
      report->InvalidEach(Index(Child(here, "hostnames"), k), alias.hostnames(k),
                          CheckDns1123Subdomain(alias.hostnames(k)));
    }
  }
}

}  // namespace holdfast::agent::kube
