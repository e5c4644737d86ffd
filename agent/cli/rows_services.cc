// SPDX-License-Identifier: Apache-2.0
// Services and their endpoints as table rows.
#include <algorithm>
#include <map>
#include <utility>

#include "agent/cli/durations.h"
#include "agent/cli/rows.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr size_t kShownEndpoints = 3;

void AddTo(std::string& list, const std::string& item) {
  list += StrCat(list.empty() ? "" : ",", item);
}

std::string ExternalAddresses(const core::Service& service) {
  std::string list;
  if (service.spec().type() == "ExternalName") return service.spec().externalname();
  for (const auto& ingress : service.status().loadbalancer().ingress()) {
    AddTo(list, ingress.ip().empty() ? ingress.hostname() : ingress.ip());
  }
  if (list.empty() && service.spec().type() == "LoadBalancer") list = "<pending>";
  for (const std::string& ip : service.spec().externalips()) AddTo(list, ip);
  return list.empty() ? "<none>" : list;
}

std::string PortsOf(const core::Service& service) {
  std::string list;
  for (const auto& port : service.spec().ports()) {
    const std::string node = port.nodeport() != 0 ? StrCat(":", port.nodeport()) : "";
    AddTo(list, StrCat(port.port(), node, "/", port.protocol()));
  }
  return list.empty() ? "<none>" : list;
}

}  // namespace

std::string SelectorOf(const core::Service& service) {
  std::map<std::string, std::string> sorted(service.spec().selector().begin(),
                                            service.spec().selector().end());
  std::string list;
  for (const auto& [key, value] : sorted) AddTo(list, StrCat(key, "=", value));
  return list.empty() ? "<none>" : list;
}

Cells ServiceHeader(const RowStyle& style) {
  Cells header = {"NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"};
  if (style.wide) header.push_back("SELECTOR");
  return WithNamespace(style, "NAMESPACE", std::move(header));
}

Cells ServiceRow(const core::Service& service, const RowStyle& style) {
  const core::ServiceSpec& spec = service.spec();
  Cells row = {service.metadata().name(),
               spec.type(),
               spec.clusterip().empty() ? "<none>" : spec.clusterip(),
               ExternalAddresses(service),
               PortsOf(service),
               Age(kube::ToWallTime(service.metadata().creationtimestamp()), style.now)};
  if (style.wide) row.push_back(SelectorOf(service));
  return WithNamespace(style, service.metadata().namespace_(), std::move(row));
}

std::string ServiceOfSlice(const Slice& slice) {
  const auto& labels = slice.metadata().labels();
  const auto label = labels.find("kubernetes.io/service-name");
  return label == labels.end() ? "" : label->second;
}

std::vector<std::string> ReadyEndpoints(const Slice& slice, const std::string* port_name) {
  std::vector<std::string> out;
  for (const auto& endpoint : slice.endpoints()) {
    const bool ready = !endpoint.conditions().has_ready() || endpoint.conditions().ready();
    if (!ready || endpoint.addresses().empty()) continue;
    const std::string& ip = endpoint.addresses(0);
    const std::string shown = slice.addresstype() == "IPv6" ? StrCat("[", ip, "]") : ip;
    if (slice.ports().empty()) out.push_back(shown);
    for (const auto& port : slice.ports()) {
      if (port_name != nullptr && port.name() != *port_name) continue;
      out.push_back(StrCat(shown, ":", port.port()));
    }
  }
  return out;
}

std::string ShownEndpoints(const std::vector<std::string>& endpoints, bool all,
                           std::string_view if_empty) {
  const size_t shown = all ? endpoints.size() : std::min(endpoints.size(), kShownEndpoints);
  std::string text;
  for (size_t i = 0; i < shown; ++i) AddTo(text, endpoints[i]);
  if (shown < endpoints.size()) text += StrCat(" + ", endpoints.size() - shown, " more...");
  return text.empty() ? std::string(if_empty) : text;
}

std::vector<EndpointsOfService> GroupByService(const std::vector<Slice>& slices) {
  std::map<std::pair<std::string, std::string>, EndpointsOfService> groups;
  for (const Slice& slice : slices) {
    const std::string& name_space = slice.metadata().namespace_();
    const std::string service = ServiceOfSlice(slice);
    EndpointsOfService& group = groups[{name_space, service}];
    group.name_space = name_space;
    group.service = service.empty() ? "<none>" : service;
    group.slices.push_back(&slice);
  }
  std::vector<EndpointsOfService> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  return out;
}

Cells EndpointsHeader(const RowStyle& style) {
  return WithNamespace(style, "NAMESPACE", {"NAME", "ENDPOINTS"});
}

Cells EndpointsRow(const EndpointsOfService& endpoints, const RowStyle& style) {
  std::vector<std::string> all;
  for (const Slice* slice : endpoints.slices) {
    for (std::string& endpoint : ReadyEndpoints(*slice)) all.push_back(std::move(endpoint));
  }
  return WithNamespace(style, endpoints.name_space,
                       {endpoints.service, ShownEndpoints(all, style.wide)});
}

Cells SliceHeader(const RowStyle& style) {
  return WithNamespace(style, "NAMESPACE", {"NAME", "ADDRESSTYPE", "PORTS", "ENDPOINTS", "AGE"});
}

Cells SliceRow(const Slice& slice, const RowStyle& style) {
  std::vector<std::string> ports;
  for (const auto& port : slice.ports()) {
    ports.push_back(port.has_port() ? StrCat(port.port()) : port.name());
  }
  std::vector<std::string> addresses;
  for (const auto& endpoint : slice.endpoints()) {
    addresses.insert(addresses.end(), endpoint.addresses().begin(), endpoint.addresses().end());
  }
  return WithNamespace(
      style, slice.metadata().namespace_(),
      {slice.metadata().name(), slice.addresstype(), ShownEndpoints(ports, false, "<unset>"),
       ShownEndpoints(addresses, style.wide, "<unset>"),
       Age(kube::ToWallTime(slice.metadata().creationtimestamp()), style.now)});
}

}  // namespace holdfast::agent::cli
