// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/files.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kHostnameLimit = 63;
constexpr size_t kKernelLimit = 64;  // uname(2): of the whole name

std::string ShortHostname(const corev1::Pod& pod) {
  const auto& spec = pod.spec();
  std::string name = pod.metadata().name();
  if (!spec.hostname().empty()) name = spec.hostname();
  if (!spec.hostnameoverride().empty()) name = spec.hostnameoverride();
  if (name.size() > kHostnameLimit) name.resize(kHostnameLimit);
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name;
}

// "<subdomain>.<namespace>.svc.<domain>", "" without a subdomain.
std::string HostDomain(const corev1::Pod& pod, const NodeEnvironment& node) {
  if (pod.spec().subdomain().empty() || !pod.spec().hostnameoverride().empty()) return "";
  return StrCat(pod.spec().subdomain(), ".", pod.metadata().namespace_(), ".svc.",
                node.cluster_domain);
}

std::string Aliases(const corev1::Pod& pod) {
  if (pod.spec().hostaliases().empty()) return "";
  std::string out = "\n# Entries added by HostAliases.\n";
  for (const corev1::HostAlias& alias : pod.spec().hostaliases()) {
    out += alias.ip();
    for (const std::string& name : alias.hostnames()) out += StrCat("\t", name);
    out += "\n";
  }
  return out;
}

constexpr char kLocalNames[] =
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n";

}  // namespace

std::string PodHostname(const corev1::Pod& pod, const NodeEnvironment& node) {
  const std::string name = ShortHostname(pod);
  const std::string domain = HostDomain(pod, node);
  return pod.spec().sethostnameasfqdn() && !domain.empty() ? StrCat(name, ".", domain) : name;
}

Result<void> CheckHostname(const corev1::Pod& pod, const NodeEnvironment& node) {
  const std::string name = PodHostname(pod, node);
  if (name.size() <= kKernelLimit) return {};
  return InvalidArgument(
      StrCat("failed to construct FQDN from pod hostname and cluster domain, FQDN ", name,
             " is too long (", kKernelLimit, " characters is the max, ", name.size(),
             " characters requested)"));
}

std::string HostsFile(const corev1::Pod& pod, const NodeEnvironment& node,
                      const std::vector<std::string>& pod_ips) {
  if (pod.spec().hostnetwork()) {
    return StrCat("# Kubernetes-managed hosts file (host network).\n", node.hosts, Aliases(pod));
  }
  std::string out = StrCat("# Kubernetes-managed hosts file.\n", kLocalNames);
  const std::string name = ShortHostname(pod);
  const std::string domain = HostDomain(pod, node);
  for (const std::string& ip : pod_ips) {
    out += ip;
    if (!domain.empty()) out += StrCat("\t", name, ".", domain);
    out += StrCat("\t", name, "\n");
  }
  return out + Aliases(pod);
}

}  // namespace holdfast::agent
