// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/pod_links.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/podnet/pod_veth.h"

namespace holdfast::netproxy {

Result<void> PodLinks::Wire(int netns, PodWiring pod, std::vector<std::string>& warnings) {
  pod.prefix = prefix_;
  numbers_.erase(pod.uid);  // what fails below may have made another one
  ASSIGN_OR_RETURN(const int number, WirePod(node_, sysctls_, netns, pod, warnings));
  numbers_[pod.uid] = number;
  return {};
}

Result<bool> PodLinks::IsThere(const PodUid& uid) {
  const auto known = numbers_.find(uid);
  if (known != numbers_.end()) return node_.HasLink(known->second);
  return node_.HasLink(InterfaceName(prefix_, uid));
}

Result<std::vector<std::string>> PodLinks::TellLost(const std::map<PodUid, PodRecord>& records) {
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, node_.ListLinks());
  std::set<std::string> present;
  for (const sys::Link& link : links) present.insert(PodInterface(prefix_, link));
  std::vector<std::string> told;
  std::map<PodUid, int> missing;
  for (const auto& [uid, record] : records) {
    const std::string name = InterfaceName(prefix_, uid);
    if (record.releasing || present.contains(name)) continue;
    const auto before = missing_.find(uid);
    const int times = before == missing_.end() ? 1 : std::min(before->second + 1, 3);
    missing.emplace(uid, times);
    if (times != 2) continue;
    told.push_back(StrCat("pod ", record.pod_namespace, "/", record.pod_name,
                          ": somebody deleted its interface ", name,
                          ": it has no network until it is deleted and made again"));
  }
  missing_ = std::move(missing);
  return told;
}

Result<std::set<IpAddress>> PodLinks::RoutedAddresses() {
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, node_.ListLinks());
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, node_.ListRoutes());
  std::set<int> ours;
  for (const sys::Link& link : links) {
    if (!PodInterface(prefix_, link).empty()) ours.insert(link.index);
  }
  std::set<IpAddress> routed;
  for (const sys::Route& route : routes) {
    const bool is_one_address = route.destination.prefix == route.destination.network.MaxPrefix();
    if (is_one_address && ours.contains(route.link)) routed.insert(route.destination.network);
  }
  return routed;
}

Result<std::vector<sys::Link>> PodLinks::OfNobody(const std::vector<PodUid>& live) {
  std::set<std::string> wanted;
  for (const PodUid& uid : live) wanted.insert(InterfaceName(prefix_, uid));
  ASSIGN_OR_RETURN(std::vector<sys::Link> links, node_.ListLinks());
  std::erase_if(links, [&](const sys::Link& link) {
    const std::string of = PodInterface(prefix_, link);
    return of.empty() || wanted.contains(of);
  });
  return links;
}

}  // namespace holdfast::netproxy
