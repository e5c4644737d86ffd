// SPDX-License-Identifier: Apache-2.0
// /etc/resolv.conf by dnsPolicy and dnsConfig.
#include <algorithm>
#include <sstream>

#include "agent/pod/spec/files.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMaxNameservers = 3;
constexpr size_t kMaxSearches = 32;
constexpr size_t kMaxSearchCharacters = 2048;

struct Dns {
  std::vector<std::string> servers;
  std::vector<std::string> searches;
  std::vector<std::string> options;  // "ndots:5"
};

Dns Parse(const std::string& text) {
  Dns dns;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::vector<std::string> values;
    for (std::string value; words >> value;) values.push_back(value);
    if (key == "nameserver" && !values.empty()) dns.servers.push_back(values.front());
    if (key == "search") dns.searches = values;  // the last line counts, as for the resolver
    if (key == "options") dns.options = values;
  }
  return dns;
}

void AddOnce(std::vector<std::string>& list, const std::string& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::string OptionName(const std::string& option) { return option.substr(0, option.find(':')); }

void MergeConfig(const corev1::PodDNSConfig& config, Dns& dns) {
  for (const std::string& server : config.nameservers()) AddOnce(dns.servers, server);
  for (const std::string& search : config.searches()) AddOnce(dns.searches, search);
  for (const corev1::PodDNSConfigOption& option : config.options()) {
    std::erase_if(dns.options, [&](const auto& o) { return OptionName(o) == option.name(); });
    dns.options.push_back(option.has_value() ? StrCat(option.name(), ":", option.value())
                                             : option.name());
  }
}

Dns ClusterFirst(const corev1::Pod& pod, const NodeEnvironment& node, const Dns& host) {
  Dns dns;
  dns.servers = node.cluster_dns;
  const std::string& domain = node.cluster_domain;
  if (!domain.empty()) {
    dns.searches = {StrCat(pod.metadata().namespace_(), ".svc.", domain), StrCat("svc.", domain),
                    domain};
  }
  for (const std::string& search : host.searches) AddOnce(dns.searches, search);
  dns.options = {"ndots:5"};
  return dns;
}

// Cuts to the limits; true when something was left out.
bool Limit(Dns& dns) {
  bool cut = dns.servers.size() > kMaxNameservers || dns.searches.size() > kMaxSearches;
  if (dns.servers.size() > kMaxNameservers) dns.servers.resize(kMaxNameservers);
  if (dns.searches.size() > kMaxSearches) dns.searches.resize(kMaxSearches);
  size_t characters = 0;
  size_t kept = 0;
  for (; kept < dns.searches.size(); ++kept) {
    characters += dns.searches[kept].size() + (kept == 0 ? 0 : 1);
    if (characters > kMaxSearchCharacters) break;
  }
  cut = cut || kept < dns.searches.size();
  dns.searches.resize(kept);
  return cut;
}

std::string Join(const std::string& key, const std::vector<std::string>& values) {
  if (values.empty()) return "";
  std::string out = key;
  for (const std::string& value : values) out += StrCat(" ", value);
  return out + "\n";
}

std::string Print(const Dns& dns) {
  std::string out = Join("search", dns.searches);
  for (const std::string& server : dns.servers) out += StrCat("nameserver ", server, "\n");
  return out + Join("options", dns.options);
}

}  // namespace

ResolvConf ResolvConfFile(const corev1::Pod& pod, const NodeEnvironment& node) {
  ResolvConf result;
  const std::string& policy = pod.spec().dnspolicy();
  const Dns host = Parse(node.resolv_conf);
  const bool cluster = policy == "ClusterFirstWithHostNet" ||
                       (policy == "ClusterFirst" && !pod.spec().hostnetwork());
  Dns dns;
  if (policy != "None") {
    dns = host;
    if (cluster && !node.cluster_dns.empty()) {
      dns = ClusterFirst(pod, node, host);
    } else if (cluster) {
      result.warning_reason = "MissingClusterDNS";
      result.warning_message =
          StrCat("pod: \"", pod.metadata().name(), "_", pod.metadata().namespace_(), "(",
                 pod.metadata().uid(),
                 ")\". the agent has no clusterDNS configured and cannot create Pod "
                 "using \"",
                 policy, "\" policy. Falling back to \"Default\" policy.");
    }
    // The resolver's own default; without it a pod whose node names no server has no DNS at all.
    if (dns.servers.empty()) dns.servers = {"127.0.0.1"};
  }
  MergeConfig(pod.spec().dnsconfig(), dns);
  if (Limit(dns)) {
    result.warning_reason = "DNSConfigForming";
    result.warning_message = StrCat(
        "Nameserver or search limits were exceeded, some have been omitted; what is applied: ",
        Join("nameserver", dns.servers), Join("search", dns.searches));
  }
  result.text = Print(dns);
  return result;
}

}  // namespace holdfast::agent
