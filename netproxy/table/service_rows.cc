// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_rows.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/strings.h"
#include "netproxy/table/select_endpoints.h"
#include "netproxy/table/service_addresses.h"

namespace holdfast::netproxy {
namespace {

using model::EndpointList;
using model::Frontend;
using model::FrontendKind;
using model::ServiceType;

constexpr uint8_t kEverybody = model::kFromPod | model::kFromNode | model::kFromOutside;
constexpr std::chrono::seconds kLongestAffinity{86400};

std::optional<IpAddress> ClusterIp(const model::Service& service, bool v6) {
  for (const IpAddress& ip : service.cluster_ips) {
    if (ip.v6 == v6) return ip;
  }
  return std::nullopt;
}

// What of a service is the same for all of its ports in one family.
class FamilyFrontends {
 public:
  FamilyFrontends(const model::Service& service, bool v6, const TableOptions& options,
                  std::vector<std::string>& problems)
      : service_(service), v6_(v6), options_(options) {
    AddClusterIp(problems);
    AddExternalIps(problems);
    AddLoadBalancerIps(problems);
  }

  // Sorted; one per address, the restricted one where a load balancer and an external IP are one.
  std::vector<Frontend> ForPort(const model::ServicePort& port) const {
    std::vector<Frontend> frontends = addresses_;
    for (Frontend& frontend : frontends) frontend.port = port.port;
    if (HasNodePorts() && port.node_port != 0) {
      Frontend node_port = External(FrontendKind::kNodePort, {});
      node_port.address.v6 = v6_;
      node_port.port = port.node_port;
      frontends.push_back(std::move(node_port));
    }
    return frontends;
  }

 private:
  bool HasNodePorts() const {
    return service_.type == ServiceType::kNodePort || service_.type == ServiceType::kLoadBalancer;
  }

  Frontend External(FrontendKind kind, const IpAddress& address) const {
    Frontend frontend;
    frontend.kind = kind;
    frontend.address = address;
    // From inside, an address that belongs outside stands for all endpoints, as if the packet had
    // gone out to the load balancer and come back.
    frontend.outside = service_.external_local ? EndpointList::kLocal : EndpointList::kCluster;
    // With all endpoints the packet may go on to another node, and its answer must come back here.
    // The node's own packets have the frontend's address as source where that is a local one.
    frontend.masquerade = service_.external_local ? uint8_t{model::kFromNode} : kEverybody;
    return frontend;
  }

  void AddClusterIp(std::vector<std::string>& problems) {
    const std::optional<IpAddress> ip = ClusterIp(service_, v6_);
    if (!ip) return;
    if (IsForbidden(*ip)) {
      problems.push_back(StrCat("cluster IP ", ip->ToString(), ": no service may have it"));
      return;
    }
    Frontend frontend;
    frontend.kind = FrontendKind::kClusterIp;
    frontend.address = *ip;
    frontend.inside = service_.internal_local ? EndpointList::kLocal : EndpointList::kCluster;
    frontend.outside = frontend.inside;
    const model::LocalSources& local = options_.settings->local;
    const bool knows_pods = !local.cidrs.empty() || !local.interface.empty();
    if (knows_pods) frontend.masquerade = model::kFromNode | model::kFromOutside;
    if (options_.masquerade_all) frontend.masquerade = kEverybody;
    addresses_.push_back(std::move(frontend));
  }

  void AddExternalIps(std::vector<std::string>& problems) {
    for (const IpAddress& ip : service_.external_ips) {
      if (ip.v6 != v6_) continue;
      if (IsForbidden(ip)) {
        problems.push_back(StrCat("external IP ", ip.ToString(), ": no service may have it"));
      } else if (!IsIn(options_.external_ip_ranges, ip)) {
        problems.push_back(
            StrCat("external IP ", ip.ToString(), ": in none of the allowed external IP ranges"));
      } else if (!Has(ip)) {
        addresses_.push_back(External(FrontendKind::kExternalIp, ip));
      }
    }
  }

  void AddLoadBalancerIps(std::vector<std::string>& problems) {
    if (service_.type != ServiceType::kLoadBalancer) return;
    for (const model::LoadBalancerIp& ingress : service_.load_balancer_ips) {
      if (ingress.address.v6 != v6_ || ingress.proxy) continue;
      if (IsForbidden(ingress.address)) {
        problems.push_back(
            StrCat("load balancer IP ", ingress.address.ToString(), ": no service may have it"));
        continue;
      }
      // The same address as external IP would answer without its source ranges.
      std::erase_if(addresses_, [&](const Frontend& f) {
        return f.kind != FrontendKind::kClusterIp && f.address == ingress.address;
      });
      if (!Has(ingress.address)) addresses_.push_back(LoadBalancer(ingress.address));
    }
  }

  Frontend LoadBalancer(const IpAddress& address) const {
    Frontend frontend = External(FrontendKind::kLoadBalancerIp, address);
    frontend.restricted = service_.has_source_ranges;
    for (const Cidr& range : service_.source_ranges) {
      if (range.network.v6 == v6_) frontend.source_ranges.push_back(range);
    }
    // Where the address is on the node itself, the node's own packets bear it as their source.
    const auto& node = options_.node_addresses;
    if (std::any_of(node.begin(), node.end(),
                    [&](const IpAddress& a) { return IsIn(frontend.source_ranges, a); })) {
      frontend.source_ranges.push_back({address, address.MaxPrefix()});
    }
    std::sort(frontend.source_ranges.begin(), frontend.source_ranges.end());
    const auto end = std::unique(frontend.source_ranges.begin(), frontend.source_ranges.end());
    frontend.source_ranges.erase(end, frontend.source_ranges.end());
    return frontend;
  }

  bool Has(const IpAddress& ip) const {
    return std::any_of(addresses_.begin(), addresses_.end(),
                       [&](const Frontend& f) { return f.address == ip; });
  }

  const model::Service& service_;
  const bool v6_;
  const TableOptions& options_;
  std::vector<Frontend> addresses_;  // without ports
};

void FillEndpoints(std::span<const model::EndpointSlice* const> slices,
                   const model::ServicePort& port, model::ServicePortRow& row) {
  for (const JudgedEndpoint& e : JudgeEndpoints(slices, port, row.key.v6)) {
    const bool used_here = IsUsed(e.local);
    const bool used_anywhere = IsUsed(e.cluster);
    if (used_anywhere) row.cluster.push_back(e.target);
    if (used_here) row.local.push_back(e.target);
    const bool refused = e.cluster == EndpointVerdict::kWrongFamily ||
                         e.cluster == EndpointVerdict::kForbiddenAddress;
    if (!used_here && !used_anywhere && !refused && (e.flags & model::kEndpointServing) != 0) {
      row.draining.push_back(e.target);
    }
  }
}

void BuildFamily(const model::Service& service, std::span<const model::EndpointSlice* const> slices,
                 bool v6, const TableOptions& options, BuiltRows& out) {
  const FamilyFrontends frontends(service, v6, options, out.problems);
  for (const model::ServicePort& port : service.ports) {
    model::ServicePortRow row;
    row.key = KeyOf(service, port, v6);
    if (std::any_of(out.rows.begin(), out.rows.end(),
                    [&](const model::ServicePortRow& other) { return other.key == row.key; })) {
      out.problems.push_back(
          StrCat("port ", port.port, ": another port has the name \"", port.name, "\" already"));
      continue;
    }
    row.protocol = port.protocol;
    row.affinity = std::clamp(service.affinity, std::chrono::seconds(0), kLongestAffinity);
    if (service.type == ServiceType::kLoadBalancer && service.external_local) {
      row.health_check_port = service.health_check_port;
    }
    row.frontends = frontends.ForPort(port);
    std::sort(row.frontends.begin(), row.frontends.end(), [](const Frontend& a, const Frontend& b) {
      return std::tie(a.kind, a.address, a.port) < std::tie(b.kind, b.address, b.port);
    });
    FillEndpoints(slices, port, row);
    out.rows.push_back(std::move(row));
  }
}

}  // namespace

std::string_view WhySkipped(const model::Service& service) {
  if (!service.proxy_name.empty()) return "its service-proxy-name label names another proxy";
  if (service.type == ServiceType::kExternalName) {
    return "it is of type ExternalName: a name in DNS, no address";
  }
  if (service.headless) return "it is headless: clients get the endpoints themselves from DNS";
  if (service.cluster_ips.empty()) return "it has no cluster IP";
  return "";
}

BuiltRows BuildRows(const model::Service& service,
                    std::span<const model::EndpointSlice* const> slices,
                    const TableOptions& options) {
  BuiltRows out;
  if (!WhySkipped(service).empty()) return out;
  for (const bool v6 : {false, true}) {
    // The cluster IPs say which families a service has; nothing of it works in another one.
    if (ClusterIp(service, v6)) BuildFamily(service, slices, v6, options, out);
  }
  return out;
}

model::ServicePortKey KeyOf(const model::Service& service, const model::ServicePort& port,
                            bool v6) {
  std::string name = ToString(service.name);
  if (!port.name.empty()) name += StrCat(":", port.name);
  return {std::move(name), v6};
}

model::ServiceName ServiceOf(std::string_view port_key) {
  const size_t slash = port_key.find('/');
  const std::string_view rest = port_key.substr(slash + 1);
  return {std::string(port_key.substr(0, slash)), std::string(rest.substr(0, rest.find(':')))};
}

std::string ToString(const model::ServiceName& name) {
  return StrCat(name.object_namespace, "/", name.name);
}

std::string ToString(const Frontend& frontend, model::L4Protocol protocol) {
  if (frontend.kind == FrontendKind::kNodePort) {
    return StrCat(ToString(protocol), " node port ", frontend.port,
                  frontend.address.v6 ? " (IPv6)" : " (IPv4)");
  }
  const std::string ip = frontend.address.ToString();
  return StrCat(ToString(protocol), " ", frontend.address.v6 ? StrCat("[", ip, "]") : ip, ":",
                frontend.port);
}

}  // namespace holdfast::netproxy
