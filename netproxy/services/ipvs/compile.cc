// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/compile.h"

#include <linux/ip_vs.h>

#include <algorithm>
#include <array>

namespace holdfast::netproxy::ipvs {
namespace {

using model::EndpointList;
using model::Frontend;
using model::FrontendAnswer;
using model::FrontendKind;

constexpr uint32_t kTag = 0x5a000000;
constexpr uint32_t kBySlot = 1u << 21;

struct Source {
  uint8_t bit;
  bool inside;
  RuleSet masquerade;
  RuleSet marks;
  RuleSet port_marks;
};
constexpr std::array<Source, 3> kSources = {{
    {model::kFromPod, true, RuleSet::kMasqueradePod, RuleSet::kMarksPod, RuleSet::kPortMarksPod},
    {model::kFromNode, true, RuleSet::kMasqueradeNode, RuleSet::kMarksNode,
     RuleSet::kPortMarksNode},
    {model::kFromOutside, false, RuleSet::kMasqueradeOutside, RuleSet::kMarksOutside,
     RuleSet::kPortMarksOutside},
}};

bool IsNodePort(const Frontend& frontend) { return frontend.kind == FrontendKind::kNodePort; }

class RowCompiler {
 public:
  RowCompiler(const model::ServicePortRow& row, const CompileContext& context, uint32_t slot)
      : row_(row), context_(context), id_(MarkId(row, slot)) {}

  RowRules Compile() {
    for (const Frontend& frontend : row_.frontends) AddFrontend(frontend);
    if (row_.health_check_port != 0) {
      Add(RuleSet::kHealthChecks, nft::PackProtocol(6) + nft::PackPort(row_.health_check_port));
    }
    for (const model::Endpoint& endpoint : row_.local) {
      const std::string ip = nft::PackAddress(endpoint.ip);
      Add(RuleSet::kHairpin, ip + ip);
    }
    std::sort(out_.elements.begin(), out_.elements.end());
    out_.elements.erase(std::unique(out_.elements.begin(), out_.elements.end()),
                        out_.elements.end());
    std::sort(out_.addresses.begin(), out_.addresses.end());
    out_.addresses.erase(std::unique(out_.addresses.begin(), out_.addresses.end()),
                         out_.addresses.end());
    return std::move(out_);
  }

 private:
  void Add(RuleSet set, const std::string& key, const std::string& value = "") {
    out_.elements.push_back({{set}, key, value});
  }

  void AddFrontend(const Frontend& frontend) {
    const bool port = IsNodePort(frontend);
    const std::string key = KeyOf(frontend);
    const bool own = port || context_.node_addresses.contains(frontend.address);
    if (!own) out_.addresses.push_back(frontend.address);
    if (frontend.restricted) AddSourceRanges(frontend, key);
    if (row_.cluster.empty()) {
      Add(port ? RuleSet::kPortRefuse : RuleSet::kRefuse, key);
      return;
    }
    if (!port) Add(RuleSet::kServed, key);
    if (AnswerOf(row_, frontend.inside) != FrontendAnswer::kServe) {
      Add(port ? RuleSet::kPortInsideDiscard : RuleSet::kInsideDiscard, key);
    }
    if (AnswerOf(row_, frontend.outside) != FrontendAnswer::kServe) {
      Add(port ? RuleSet::kPortOutsideDiscard : RuleSet::kOutsideDiscard, key);
    }
    for (const Source& source : kSources) AddSource(frontend, key, own, source);
  }

  void AddSource(const Frontend& frontend, const std::string& key, bool own, const Source& source) {
    const EndpointList list = source.inside ? frontend.inside : frontend.outside;
    if (EndpointsOf(row_, list).empty()) return;
    const bool masquerade = (frontend.masquerade & source.bit) != 0;
    if (!own && list == frontend.inside) {
      AddVirtual(
          {row_.key.v6, 0, static_cast<uint8_t>(row_.protocol), frontend.address, frontend.port},
          list);
      if (masquerade) Add(source.masquerade, key);
      return;
    }
    const uint32_t mark = MarkOf(id_, list, masquerade, context_.masquerade_mark);
    VirtualKey by_mark;
    by_mark.v6 = row_.key.v6;
    by_mark.mark = mark;
    by_mark.address.v6 = row_.key.v6;
    AddVirtual(by_mark, list);
    Add(IsNodePort(frontend) ? source.port_marks : source.marks, key, nft::PackNumber(mark));
  }

  void AddVirtual(const VirtualKey& key, EndpointList list) {
    if (out_.virtuals.contains(key)) return;
    VirtualServer server;
    server.config = context_.config;
    if (row_.affinity.count() > 0) {
      server.config.flags |= IP_VS_SVC_F_PERSISTENT;
      server.config.timeout = static_cast<uint32_t>(row_.affinity.count());
    }
    server.graceful = row_.protocol == model::L4Protocol::kTcp;
    server.endpoints = EndpointsOf(row_, list);
    if (!server.graceful) server.draining = row_.draining;
    out_.virtuals.emplace(key, std::move(server));
  }

  void AddSourceRanges(const Frontend& frontend, const std::string& key) {
    if (IsNodePort(frontend)) return;
    Add(RuleSet::kRestricted, key);
    bool node = false;
    for (const Cidr& range : frontend.source_ranges) {
      if (range.network.v6 != row_.key.v6) continue;
      Allow(range, key);
      node |= std::any_of(context_.node_addresses.begin(), context_.node_addresses.end(),
                          [&](const IpAddress& ip) { return range.Contains(ip); });
    }
    // The address is the node's own, and so the source that the node's packets to it have.
    if (node) Allow({frontend.address, frontend.address.MaxPrefix()}, key);
  }

  void Allow(const Cidr& range, const std::string& key) {
    out_.elements.push_back(
        {{RuleSet::kAllowed, range.prefix}, key + nft::PackAddress(range.network), std::string()});
  }

  std::string KeyOf(const Frontend& frontend) const {
    const std::string port =
        nft::PackProtocol(static_cast<uint8_t>(row_.protocol)) + nft::PackPort(frontend.port);
    return IsNodePort(frontend) ? port : nft::PackAddress(frontend.address) + port;
  }

  const model::ServicePortRow& row_;
  const CompileContext& context_;
  const uint32_t id_;
  RowRules out_;
};

}  // namespace

uint32_t PreferredSlot(const std::string& name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return (hash ^ hash >> 20) % kSlots;
}

uint32_t MarkId(const model::ServicePortRow& row, uint32_t slot) {
  const auto port = std::find_if(row.frontends.begin(), row.frontends.end(), IsNodePort);
  if (port == row.frontends.end()) return kBySlot | slot;
  const uint32_t protocol = row.protocol == model::L4Protocol::kTcp   ? 0
                            : row.protocol == model::L4Protocol::kUdp ? 1
                                                                      : 2;
  return protocol << 16 | port->port;
}

uint32_t MarkOf(uint32_t id, EndpointList list, bool masquerade, uint32_t masquerade_mark) {
  const uint32_t value = id << 1 | (list == EndpointList::kLocal ? 1u : 0u);
  const uint32_t below = value & (masquerade_mark - 1);
  const uint32_t above = (value & ~(masquerade_mark - 1)) << 1;
  return ((kTag | above | below) & ~masquerade_mark) | (masquerade ? masquerade_mark : 0u);
}

bool NeedsSlot(const model::ServicePortRow& row, const CompileContext& context) {
  if (row.cluster.empty()) return false;
  if (std::any_of(row.frontends.begin(), row.frontends.end(), IsNodePort)) return false;
  return std::any_of(row.frontends.begin(), row.frontends.end(), [&](const Frontend& frontend) {
    return frontend.inside != frontend.outside || context.node_addresses.contains(frontend.address);
  });
}

RowRules CompileRow(const model::ServicePortRow& row, const CompileContext& context,
                    uint32_t slot) {
  return RowCompiler(row, context, slot).Compile();
}

}  // namespace holdfast::netproxy::ipvs
