// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/convert.h"

#include <algorithm>

#include "agent/kube/validation/addresses.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

constexpr char kHeadlessLabel[] = "service.kubernetes.io/headless";

std::optional<model::L4Protocol> ProtocolOf(const std::string& name) {
  if (name.empty() || name == "TCP") return model::L4Protocol::kTcp;
  if (name == "UDP") return model::L4Protocol::kUdp;
  if (name == "SCTP") return model::L4Protocol::kSctp;
  return std::nullopt;
}

std::optional<uint16_t> PortOf(int32_t port) {
  if (port < 1 || port > 65535) return std::nullopt;
  return static_cast<uint16_t>(port);
}

model::ServiceType TypeOf(const std::string& type) {
  if (type == "NodePort") return model::ServiceType::kNodePort;
  if (type == "LoadBalancer") return model::ServiceType::kLoadBalancer;
  if (type == "ExternalName") return model::ServiceType::kExternalName;
  return model::ServiceType::kClusterIp;
}

template <class Texts>
std::vector<IpAddress> AddressesOf(const Texts& texts) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : texts) {
    if (const auto address = IpAddress::Parse(text)) addresses.push_back(*address);
  }
  return addresses;
}

void SetClusterIps(const corev1::ServiceSpec& spec, model::Service& out) {
  out.cluster_ips = AddressesOf(spec.clusterips());
  if (spec.clusterips().empty() && !spec.clusterip().empty()) {
    out.cluster_ips = AddressesOf(std::vector<std::string>{spec.clusterip()});
  }
  if (spec.clusterip() == kHeadlessIp) out.headless = true;
}

void SetPorts(const corev1::ServiceSpec& spec, model::Service& out) {
  for (const corev1::ServicePort& port : spec.ports()) {
    const auto protocol = ProtocolOf(port.protocol());
    const auto number = PortOf(port.port());
    if (!protocol || !number) continue;
    out.ports.push_back(
        {port.name(), *protocol, *number, PortOf(port.nodeport()).value_or(uint16_t{0})});
  }
}

void SetExternal(const corev1::Service& service, model::Service& out) {
  const corev1::ServiceSpec& spec = service.spec();
  out.external_ips = AddressesOf(spec.externalips());
  for (const auto& ingress : service.status().loadbalancer().ingress()) {
    if (const auto address = IpAddress::Parse(ingress.ip())) {
      out.load_balancer_ips.push_back({*address, ingress.ipmode() == "Proxy"});
    }
  }
  out.has_source_ranges = spec.loadbalancersourceranges_size() > 0;
  for (const std::string& text : spec.loadbalancersourceranges()) {
    if (const auto range = kube::ReadRange(text)) out.source_ranges.push_back(*range);
  }
  out.external_local = spec.externaltrafficpolicy() == "Local";
  out.health_check_port = PortOf(spec.healthchecknodeport()).value_or(uint16_t{0});
}

uint8_t FlagsOf(const discoveryv1::Endpoint& endpoint, const NodeIdentity& node) {
  const discoveryv1::EndpointConditions& conditions = endpoint.conditions();
  const bool ready = !conditions.has_ready() || conditions.ready();
  const bool serving = conditions.has_serving() ? conditions.serving() : ready;
  uint8_t flags = 0;
  const auto set = [&](bool on, uint8_t flag) {
    if (on) flags = static_cast<uint8_t>(flags | flag);
  };
  set(ready, model::kEndpointReady);
  set(serving, model::kEndpointServing);
  set(conditions.terminating(), model::kEndpointTerminating);
  set(!node.name.empty() && endpoint.nodename() == node.name, model::kEndpointHere);
  for (const auto& hint : endpoint.hints().fornodes()) {
    set(true, model::kEndpointNodeHints);
    set(hint.name() == node.name, model::kEndpointNodeHinted);
  }
  for (const auto& hint : endpoint.hints().forzones()) {
    set(true, model::kEndpointZoneHints);
    set(!node.zone.empty() && hint.name() == node.zone, model::kEndpointZoneHinted);
  }
  return flags;
}

}  // namespace

uint32_t NodeNumbers::NumberOf(const std::string& node) {
  if (node.empty()) return 0;
  const auto [it, added] = numbers_.emplace(node, static_cast<uint32_t>(names_.size()));
  if (added) names_.push_back(node);
  return it->second;
}

std::string NodeNumbers::NameOf(uint32_t number) const {
  return number < names_.size() ? names_[number] : std::string();
}

model::ServiceName NameOf(const corev1::Service& service) {
  return {service.metadata().namespace_(), service.metadata().name()};
}

model::Service ToModel(const corev1::Service& service) {
  const auto& meta = service.metadata();
  const corev1::ServiceSpec& spec = service.spec();
  model::Service out;
  out.name = {meta.namespace_(), meta.name()};
  out.created = meta.creationtimestamp().seconds();
  out.type = TypeOf(spec.type());
  if (const auto label = meta.labels().find(kProxyNameLabel); label != meta.labels().end()) {
    out.proxy_name = label->second.empty() ? "\"\"" : label->second;  // its presence counts
  }
  out.headless = meta.labels().contains(kHeadlessLabel);
  SetClusterIps(spec, out);
  SetPorts(spec, out);
  SetExternal(service, out);
  if (spec.sessionaffinity() == "ClientIP") {
    out.affinity = std::chrono::seconds(spec.sessionaffinityconfig().clientip().timeoutseconds());
  }
  out.internal_local = spec.internaltrafficpolicy() == "Local";
  return out;
}

std::optional<model::EndpointSlice> ToModel(const discoveryv1::EndpointSlice& slice,
                                            const NodeIdentity& node, NodeNumbers& numbers) {
  const auto& meta = slice.metadata();
  const auto service = meta.labels().find(kServiceNameLabel);
  if (service == meta.labels().end() || service->second.empty()) return std::nullopt;
  if (slice.addresstype() != "IPv4" && slice.addresstype() != "IPv6") return std::nullopt;
  model::EndpointSlice out;
  out.service = {meta.namespace_(), service->second};
  out.name = meta.name();
  out.v6 = slice.addresstype() == "IPv6";
  for (const discoveryv1::EndpointPort& port : slice.ports()) {
    const auto protocol = ProtocolOf(port.protocol());
    const auto number = PortOf(port.port());
    if (protocol && number) out.ports.push_back({port.name(), *protocol, *number});
  }
  for (const discoveryv1::Endpoint& endpoint : slice.endpoints()) {
    if (endpoint.addresses().empty()) continue;
    // Further addresses would be the same endpoint again; Kubernetes uses the first only.
    const auto address = IpAddress::Parse(endpoint.addresses(0));
    if (!address) continue;
    out.endpoints.push_back(
        {*address, FlagsOf(endpoint, node), numbers.NumberOf(endpoint.nodename())});
  }
  return out;
}

}  // namespace holdfast::agent
