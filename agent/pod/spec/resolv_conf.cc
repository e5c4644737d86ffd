// SPDX-License-Identifier: Apache-2.0
// /etc/resolv.conf by dnsPolicy and dnsConfig.
#include <algorithm>
#include <sstream>
#include <utility>

#include "agent/pod/spec/files.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMaxNameservers = 3;
constexpr size_t kMaxSearches = 32;
constexpr size_t kMaxSearchCharacters = 2048;
constexpr size_t kMaxSearch = 253;  // glibc 2.28 aborts over a longer one

struct Dns {
  std::vector<std::string> servers;
  std::vector<std::string> searches;
  std::vector<std::string> options;  // "ndots:5"
};

std::string OptionName(const std::string& option) { return option.substr(0, option.find(':')); }

// One of a name: what came before gives way.
void SetOption(std::vector<std::string>& options, const std::string& option) {
  std::erase_if(options, [&](const auto& o) { return OptionName(o) == OptionName(option); });
  options.push_back(option);
}

// The same domain with a dot at its end and without is one.
std::vector<std::string> Searches(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (const std::string& value : values) {
    if (value == ".") continue;
    out.push_back(value.ends_with('.') ? value.substr(0, value.size() - 1) : value);
  }
  return out;
}

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
    // The last line counts, as for the resolver.
    if (key == "search") dns.searches = Searches(values);
    if (key == "options") {
      for (const std::string& value : values) SetOption(dns.options, value);
    }
  }
  return dns;
}

// What is there, then `more`; of what is there twice the first.
template <typename More>
void Append(std::vector<std::string>& list, const More& more) {
  std::vector<std::string> all = std::exchange(list, {});
  all.insert(all.end(), more.begin(), more.end());
  for (std::string& value : all) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(std::move(value));
  }
}

void MergeConfig(const corev1::PodDNSConfig& config, Dns& dns) {
  Append(dns.servers, config.nameservers());
  Append(dns.searches, config.searches());
  for (const corev1::PodDNSConfigOption& option : config.options()) {
    SetOption(dns.options,
              option.value().empty() ? option.name() : StrCat(option.name(), ":", option.value()));
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
  Append(dns.searches, host.searches);
  dns.options = {"ndots:5"};
  return dns;
}

bool LimitSearches(std::vector<std::string>& searches) {
  const size_t before = searches.size();
  if (searches.size() > kMaxSearches) searches.resize(kMaxSearches);
  std::erase_if(searches, [](const std::string& search) { return search.size() > kMaxSearch; });
  while (Join(searches, " ").size() > kMaxSearchCharacters) searches.pop_back();
  return searches.size() < before;
}

// Cuts to what resolvers take, and tells.
void Limit(Dns& dns, std::vector<ResolvConf::Warning>& warnings) {
  if (dns.servers.size() > kMaxNameservers) {
    dns.servers.resize(kMaxNameservers);
    warnings.push_back(
        {"DNSConfigForming",
         StrCat("Nameserver limits were exceeded, some nameservers have been omitted, the "
                "applied nameserver line is: ",
                Join(dns.servers, " "))});
  }
  if (LimitSearches(dns.searches)) {
    warnings.push_back(
        {"DNSConfigForming",
         StrCat("Search Line limits were exceeded, some search paths have been omitted, "
                "the applied search line is: ",
                Join(dns.searches, " "))});
  }
}

// A node without a resolv.conf: nobody is asked, and no domain is tried.
void NobodyIsAsked(const NodeEnvironment& node, Dns& dns) {
  for (const std::string& ip : node.host_ips) {
    dns.servers.push_back(ip.find(':') != std::string::npos ? "::1" : "127.0.0.1");
  }
  dns.searches = {"."};
}

std::string Line(const std::string& key, const std::vector<std::string>& values) {
  return values.empty() ? "" : StrCat(key, " ", Join(values, " "), "\n");
}

std::string Print(const Dns& dns) {
  std::string out = Line("search", dns.searches);
  for (const std::string& server : dns.servers) out += StrCat("nameserver ", server, "\n");
  return out + Line("options", dns.options);
}

}  // namespace

ResolvConf ResolvConfFile(const corev1::Pod& pod, const NodeEnvironment& node) {
  ResolvConf result;
  const std::string& policy = pod.spec().dnspolicy();
  const Dns host = Parse(node.resolv_conf);
  const bool cluster = policy == "ClusterFirstWithHostNet" ||
                       (policy == "ClusterFirst" && !pod.spec().hostnetwork());
  Dns dns;
  if (cluster && !node.cluster_dns.empty()) {
    dns = ClusterFirst(pod, node, host);
  } else if (policy != "None") {
    dns = host;
    if (node.resolv_conf.empty()) NobodyIsAsked(node, dns);
    // The resolver's own default; without it a pod whose node names no server has no DNS at all.
    if (dns.servers.empty()) dns.servers = {"127.0.0.1"};
  }
  if (cluster && node.cluster_dns.empty()) {
    result.warnings.push_back(
        {"MissingClusterDNS",
         StrCat("pod: \"", pod.metadata().name(), "_", pod.metadata().namespace_(), "(",
                pod.metadata().uid(),
                ")\". kubelet does not have ClusterDNS IP configured and cannot create Pod using "
                "\"ClusterFirst\" policy. Falling back to \"Default\" policy.")});
  }
  if (pod.spec().has_dnsconfig()) MergeConfig(pod.spec().dnsconfig(), dns);
  Limit(dns, result.warnings);
  result.text = Print(dns);
  result.servers = std::move(dns.servers);
  result.searches = std::move(dns.searches);
  result.options = std::move(dns.options);
  return result;
}

std::string ResolvConfFault(const std::string& path, const std::string& text,
                            const std::string& cluster_domain) {
  const std::vector<std::string> searches = Parse(text).searches;
  // The cluster's own come first: ClusterFirst().
  const size_t most = kMaxSearches - (cluster_domain.empty() ? 0 : 3);
  if (searches.size() > most) {
    return StrCat("Resolv.conf file '", path, "' contains search line consisting of more than ",
                  most, " domains!");
  }
  if (std::ranges::any_of(searches,
                          [](const auto& search) { return search.size() > kMaxSearch; })) {
    return StrCat("Resolv.conf file \"", path,
                  "\" contains a search path which length is more than allowed ", kMaxSearch,
                  " chars!");
  }
  if (Join(searches, " ").size() > kMaxSearchCharacters) {
    return StrCat("Resolv.conf file '", path,
                  "' contains search line which length is more than allowed ", kMaxSearchCharacters,
                  " chars!");
  }
  return "";
}

}  // namespace holdfast::agent
