// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_endpoints.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "agent/kube/pod_identity.h"
#include "agent/kube/pod_status.h"
#include "agent/proxy/convert.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

constexpr char kManagedByLabel[] = "endpointslice.kubernetes.io/managed-by";
constexpr char kManager[] = "holdfast.dev";

bool HasEnded(const corev1::Pod& pod) { return kube::IsTerminalPhase(pod.status().phase()); }

bool IsReady(const corev1::Pod& pod) {
  for (const auto& condition : pod.status().conditions()) {
    if (condition.type() == "Ready") return condition.status() == "True";
  }
  return false;
}

std::optional<int32_t> NamedPort(const corev1::Container& container, const std::string& name,
                                 const std::string& protocol) {
  for (const corev1::ContainerPort& port : container.ports()) {
    const std::string& has = port.protocol().empty() ? "TCP" : port.protocol();
    if (port.name() == name && has == protocol) return port.containerport();
  }
  return std::nullopt;
}

// Nothing when no container of the pod has a port of that name.
std::optional<int32_t> TargetPort(const corev1::ServicePort& port, const corev1::Pod& pod) {
  const auto& target = port.targetport();
  if (target.type() == 0) return target.intval() != 0 ? target.intval() : port.port();
  for (const corev1::Container& container : pod.spec().containers()) {
    if (auto found = NamedPort(container, target.strval(), port.protocol())) return found;
  }
  for (const corev1::Container& container : pod.spec().initcontainers()) {
    if (container.restartpolicy() != "Always") continue;  // only sidecars go on running
    if (auto found = NamedPort(container, target.strval(), port.protocol())) return found;
  }
  return std::nullopt;
}

// By index of the service's port.
using Ports = std::vector<std::pair<int, int32_t>>;

Ports PortsOf(const corev1::Service& service, const corev1::Pod& pod) {
  Ports ports;
  for (int i = 0; i < service.spec().ports_size(); ++i) {
    if (const auto target = TargetPort(service.spec().ports(i), pod))
      ports.emplace_back(i, *target);
  }
  return ports;
}

bool HasFamily(const corev1::Service& service, bool v6) {
  const auto& families = service.spec().ipfamilies();
  return families.empty() ||
         std::find(families.begin(), families.end(), v6 ? "IPv6" : "IPv4") != families.end();
}

// The pod's address of one family, "" without.
std::string AddressOf(const corev1::Pod& pod, bool v6) {
  const auto has_family = [&](const std::string& ip) {
    return !ip.empty() && (ip.find(':') != std::string::npos) == v6;
  };
  for (const auto& ip : pod.status().podips()) {
    if (has_family(ip.ip())) return ip.ip();
  }
  return has_family(pod.status().podip()) ? pod.status().podip() : "";
}

void FillEndpoint(const corev1::Service& service, const corev1::Pod& pod,
                  const std::string& address, const NodeIdentity& node,
                  discoveryv1::Endpoint& out) {
  out.add_addresses(address);
  const bool terminating = pod.metadata().has_deletiontimestamp();
  const bool serving = IsReady(pod);
  const bool publish = service.spec().publishnotreadyaddresses();
  out.mutable_conditions()->set_ready(publish || (serving && !terminating));
  out.mutable_conditions()->set_serving(serving);
  out.mutable_conditions()->set_terminating(terminating);
  out.set_nodename(node.name);
  if (!node.zone.empty()) out.set_zone(node.zone);
  if (!pod.spec().hostname().empty()) out.set_hostname(pod.spec().hostname());
  out.mutable_targetref()->set_kind("Pod");
  out.mutable_targetref()->set_namespace_(pod.metadata().namespace_());
  out.mutable_targetref()->set_name(pod.metadata().name());
  out.mutable_targetref()->set_uid(pod.metadata().uid());
  // Each value of it prefers the same zone; PreferClose is the old name of PreferSameZone.
  const std::string& wish = service.spec().trafficdistribution();
  if (wish == "PreferSameNode") out.mutable_hints()->add_fornodes()->set_name(node.name);
  if (!wish.empty() && !node.zone.empty()) {
    out.mutable_hints()->add_forzones()->set_name(node.zone);
  }
}

discoveryv1::EndpointSlice EmptySlice(const corev1::Service& service, bool v6, const Ports& ports) {
  discoveryv1::EndpointSlice slice;
  std::string key = v6 ? "IPv6" : "IPv4";
  for (const auto& [index, number] : ports) {
    const corev1::ServicePort& port = service.spec().ports(index);
    discoveryv1::EndpointPort& out = *slice.add_ports();
    out.set_name(port.name());
    out.set_protocol(port.protocol());
    out.set_port(number);
    if (port.has_appprotocol()) out.set_appprotocol(port.appprotocol());
    key += StrCat("/", port.name(), "=", number);
  }
  auto& meta = *slice.mutable_metadata();
  meta.set_namespace_(service.metadata().namespace_());
  meta.set_name(StrCat(service.metadata().name(), "-", kube::HashFnv128a(key).substr(0, 8)));
  (*meta.mutable_labels())[kServiceNameLabel] = service.metadata().name();
  (*meta.mutable_labels())[kManagedByLabel] = kManager;
  auto& owner = *meta.add_ownerreferences();
  owner.set_apiversion("v1");
  owner.set_kind("Service");
  owner.set_name(service.metadata().name());
  owner.set_uid(service.metadata().uid());
  owner.set_controller(true);
  slice.set_addresstype(v6 ? "IPv6" : "IPv4");
  return slice;
}

}  // namespace

bool HasSelector(const corev1::Service& service) {
  return service.spec().type() != "ExternalName" && !service.spec().selector().empty();
}

bool Selects(const corev1::Service& service, const corev1::Pod& pod) {
  if (!HasSelector(service)) return false;
  if (service.metadata().namespace_() != pod.metadata().namespace_()) return false;
  const auto& labels = pod.metadata().labels();
  return std::all_of(service.spec().selector().begin(), service.spec().selector().end(),
                     [&](const auto& wanted) {
                       const auto found = labels.find(wanted.first);
                       return found != labels.end() && found->second == wanted.second;
                     });
}

std::vector<SlicePtr> LocalSlices(const corev1::Service& service, const std::vector<PodPtr>& pods,
                                  const NodeIdentity& node) {
  std::map<std::pair<bool, Ports>, discoveryv1::EndpointSlice> slices;
  for (const PodPtr& pod : pods) {
    if (!Selects(service, *pod) || HasEnded(*pod)) continue;
    const Ports ports = PortsOf(service, *pod);
    for (const bool v6 : {false, true}) {
      const std::string address = AddressOf(*pod, v6);
      if (address.empty() || !HasFamily(service, v6)) continue;
      const auto [slice, added] = slices.try_emplace({v6, ports});
      if (added) slice->second = EmptySlice(service, v6, ports);
      FillEndpoint(service, *pod, address, node, *slice->second.add_endpoints());
    }
  }
  std::vector<SlicePtr> out;
  for (auto& [key, slice] : slices) {
    out.push_back(std::make_shared<const discoveryv1::EndpointSlice>(std::move(slice)));
  }
  return out;
}

}  // namespace holdfast::agent
