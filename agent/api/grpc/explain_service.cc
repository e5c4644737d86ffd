// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/explain_service.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"
#include "netproxy/table/service_addresses.h"

namespace holdfast::agent::api {
namespace {

using Answer = v1::ExplainServiceResponse::Answer;

struct Source {
  model::SourceClass kind;
  std::string name;
  std::optional<IpAddress> address;
};

// Where a packet with this source address comes from. Pods that are told by their interface have
// addresses of the pods' range as well.
Source SourceOf(const ExplainedService& explained, const IpAddress& from) {
  if (netproxy::IsIn(explained.local.cidrs, from)) return {model::kFromPod, "pod", from};
  const auto& node = explained.node_addresses;
  const bool is_node = std::find(node.begin(), node.end(), from) != node.end();
  if (is_node) return {model::kFromNode, "node", from};
  return {model::kFromOutside, "outside", from};
}

std::vector<Source> Sources(const ExplainedService& explained,
                            const std::optional<IpAddress>& from) {
  if (from) return {SourceOf(explained, *from)};
  return {{model::kFromPod, "pod", std::nullopt},
          {model::kFromNode, "node", std::nullopt},
          {model::kFromOutside, "outside", std::nullopt}};
}

std::string Text(const model::Endpoint& endpoint) {
  return JoinHostPort(endpoint.ip.ToString(), endpoint.port);
}

std::string KindName(model::FrontendKind kind) {
  switch (kind) {
    case model::FrontendKind::kClusterIp:
      return "ClusterIP";
    case model::FrontendKind::kExternalIp:
      return "ExternalIP";
    case model::FrontendKind::kLoadBalancerIp:
      return "LoadBalancer";
    case model::FrontendKind::kNodePort:
      return "NodePort";
  }
  return "";
}

std::string ProtocolName(model::L4Protocol protocol) {
  switch (protocol) {
    case model::L4Protocol::kTcp:
      return "TCP";
    case model::L4Protocol::kUdp:
      return "UDP";
    case model::L4Protocol::kSctp:
      return "SCTP";
  }
  return "";
}

// Known only for a certain address.
bool IsFiltered(const model::Frontend& frontend, const Source& source) {
  return frontend.restricted && source.address &&
         !netproxy::IsIn(frontend.source_ranges, *source.address);
}

std::string Policy(const model::Frontend& frontend, const Source& source, bool local) {
  if (frontend.kind == model::FrontendKind::kClusterIp) {
    return local ? "internalTrafficPolicy is Local" : "internalTrafficPolicy is Cluster";
  }
  const bool policy_local = frontend.outside == model::EndpointList::kLocal;
  if (source.kind == model::kFromOutside || !policy_local) {
    return local ? "externalTrafficPolicy is Local" : "externalTrafficPolicy is Cluster";
  }
  return "externalTrafficPolicy Local does not bind packets from inside";
}

void FillAnswer(const model::ServicePortRow& row, const model::Frontend& frontend,
                const Source& source, Answer& out) {
  const auto list = source.kind == model::kFromOutside ? frontend.outside : frontend.inside;
  const bool local = list == model::EndpointList::kLocal;
  out.set_from(source.name);
  out.set_local(local);
  if (IsFiltered(frontend, source)) {
    out.set_outcome(Answer::FILTER);
    out.set_reason("the source is in none of the loadBalancerSourceRanges");
    return;
  }
  const std::string policy = Policy(frontend, source, local);
  switch (model::AnswerOf(row, list)) {
    case model::FrontendAnswer::kRefuse:
      out.set_outcome(Answer::REJECT);
      out.set_reason("no endpoint is usable anywhere");
      return;
    case model::FrontendAnswer::kDiscard:
      out.set_outcome(Answer::DROP);
      out.set_reason(StrCat("no endpoint is usable on this node, and ", policy));
      return;
    case model::FrontendAnswer::kServe:
      break;
  }
  out.set_outcome(Answer::SERVE);
  out.set_masquerade((frontend.masquerade & source.kind) != 0);
  out.set_reason(policy);
  if (frontend.restricted && !source.address) {
    out.set_reason(StrCat(policy, "; only for sources in the loadBalancerSourceRanges"));
  }
  for (const model::Endpoint& endpoint : model::EndpointsOf(row, list)) {
    out.add_endpoints(Text(endpoint));
  }
}

v1::ExplainServiceResponse::Frontend& AddFrontend(const netproxy::ExplainedPort& port,
                                                  const model::Frontend& frontend,
                                                  v1::ExplainServiceResponse::Port& out) {
  auto& added = *out.add_frontends();
  added.set_kind(KindName(frontend.kind));
  const bool node_port = frontend.kind == model::FrontendKind::kNodePort;
  if (!node_port) added.set_address(frontend.address.ToString());
  added.set_port(frontend.port);
  added.set_protocol(ProtocolName(port.row.protocol));
  return added;
}

struct Origin {
  std::string pod;
  std::string node;
};
using Origins = std::map<std::string, Origin>;  // by address

Origins OriginsOf(const std::vector<SlicePtr>& slices) {
  Origins origins;
  for (const SlicePtr& slice : slices) {
    for (const auto& endpoint : slice->endpoints()) {
      if (endpoint.addresses().empty()) continue;
      Origin& origin = origins[endpoint.addresses(0)];
      origin.node = endpoint.nodename();
      if (endpoint.targetref().kind() == "Pod") origin.pod = endpoint.targetref().name();
    }
  }
  return origins;
}

void FillEndpoint(const netproxy::JudgedEndpoint& judged, const Origins& origins,
                  v1::ExplainServiceResponse::Endpoint& out) {
  out.set_address(Text(judged.target));
  if (const auto found = origins.find(judged.target.ip.ToString()); found != origins.end()) {
    out.set_pod(found->second.pod);
    out.set_node(found->second.node);
  }
  out.set_used(netproxy::IsUsed(judged.cluster));
  out.set_verdict(std::string(netproxy::Describe(judged.cluster)));
  out.set_used_local(netproxy::IsUsed(judged.local));
  out.set_local_verdict(std::string(netproxy::Describe(judged.local)));
}

void FillPort(const ExplainedService& explained, const netproxy::ExplainedPort& port,
              const std::vector<Source>& sources, const Origins& origins,
              v1::ExplainServiceResponse::Port& out) {
  out.set_name(port.port.name);
  out.set_ip_family(port.row.key.v6 ? "IPv6" : "IPv4");
  out.set_affinity_seconds(static_cast<uint64_t>(port.row.affinity.count()));
  for (const model::Frontend& frontend : port.row.frontends) {
    auto& added = AddFrontend(port, frontend, out);
    for (const Source& source : sources) {
      FillAnswer(port.row, frontend, source, *added.add_answers());
    }
    const auto announced = explained.announced.find(frontend.address);
    if (announced == explained.announced.end()) continue;
    for (const std::string& line : announced->second) added.add_announced(line);
  }
  for (const auto& lost : port.lost) {
    Answer& answer = *AddFrontend(port, lost.frontend, out).add_answers();
    answer.set_outcome(Answer::NO_RULE);
    answer.set_reason(StrCat("it belongs to service port ", lost.owner));
  }
  for (const netproxy::JudgedEndpoint& endpoint : port.endpoints) {
    FillEndpoint(endpoint, origins, *out.add_endpoints());
  }
}

}  // namespace

void FillExplanation(const ExplainedService& explained, const std::optional<IpAddress>& from,
                     v1::ExplainServiceResponse& out) {
  out.set_skipped(explained.table.skipped);
  for (const std::string& trouble : explained.troubles) out.add_problems(trouble);
  for (const std::string& problem : explained.table.problems) out.add_problems(problem);
  const std::vector<Source> sources = Sources(explained, from);
  const Origins origins = OriginsOf(explained.slices);
  for (const netproxy::ExplainedPort& port : explained.table.ports) {
    if (from && port.row.key.v6 != from->v6) continue;
    FillPort(explained, port, sources, origins, *out.add_ports());
  }
}

}  // namespace holdfast::agent::api
