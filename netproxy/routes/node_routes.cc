// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/node_routes.h"

#include <map>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {
namespace {

bool IsOurs(const sys::Route& route) {
  return route.protocol == kRouteProtocol && route.gateway.has_value();
}

}  // namespace

Result<NodeRoutes> NodeRoutes::Open() {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  return NodeRoutes(std::move(rtnl));
}

Result<std::vector<std::string>> NodeRoutes::Apply(const std::vector<NodePeer>& peers,
                                                   const std::vector<Cidr>& own) {
  ASSIGN_OR_RETURN(const std::vector<sys::Address> local, rtnl_.ListAddresses());
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, rtnl_.ListRoutes());
  RoutePlan plan = PlanRoutes(peers, local, own);
  std::set<Cidr> wanted;
  for (const sys::Route& route : plan.routes) wanted.insert(route.destination);
  std::map<Cidr, const sys::Route*> there;
  for (const sys::Route& route : routes) {
    if (wanted.contains(route.destination)) {
      there.emplace(route.destination, &route);
    } else if (IsOurs(route)) {
      RETURN_IF_ERROR(rtnl_.DeleteRoute(route));
    }
  }
  for (const sys::Route& route : plan.routes) {
    const auto known = there.find(route.destination);
    if (known == there.end()) {
      RETURN_IF_ERROR(rtnl_.AddRoute(route));
    } else if (!IsOurs(*known->second)) {
      plan.problems.push_back(StrCat("route ", route.destination.ToString(), " by ",
                                     route.gateway->ToString(), ": a foreign route is there"));
    } else if (known->second->gateway != route.gateway || known->second->link != route.link) {
      RETURN_IF_ERROR(rtnl_.ReplaceRoute(route));
    }
  }
  return std::move(plan.problems);
}

Result<void> NodeRoutes::Remove() {
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, rtnl_.ListRoutes());
  for (const sys::Route& route : routes) {
    if (IsOurs(route)) RETURN_IF_ERROR(rtnl_.DeleteRoute(route));
  }
  return {};
}

}  // namespace holdfast::netproxy
