// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/host_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/table/host_ports.h"

namespace holdfast::netproxy {
namespace {

// TCP ends by itself: the peer gets a reset or times out. A flow without an end lives as long as
// its client sends.
bool HasStaleFlows(const model::HostPortRow& row) {
  return row.protocol != model::L4Protocol::kTcp;
}

std::vector<model::HostPortRow> Difference(const std::vector<model::HostPortRow>& a,
                                           const std::vector<model::HostPortRow>& b) {
  std::vector<model::HostPortRow> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

}  // namespace

Result<HostRules> HostRules::Open(const std::string& table_name,
                                  const std::string& interface_prefix) {
  ASSIGN_OR_RETURN(nft::PodRulesBackEnd back_end, nft::PodRulesBackEnd::Open(table_name));
  ASSIGN_OR_RETURN(sys::NfSocket conntrack, sys::NfSocket::Open());
  HostRules rules(std::move(back_end), std::move(conntrack));
  rules.table_.pod_interface_prefix = interface_prefix;
  return rules;
}

void HostRules::SetRanges(std::vector<Cidr> pods, std::vector<Cidr> direct) {
  table_.pod_cidrs = std::move(pods);
  table_.direct = std::move(direct);
}

void HostRules::Adopt(const PodUid& uid, std::vector<model::HostPortRow> rows) {
  if (rows.empty()) return;
  pods_[uid] = std::move(rows);
  Rebuild();
}

std::optional<HostRules::Clashing> HostRules::FindClash(
    const PodUid& uid, const std::vector<model::HostPortRow>& rows) const {
  for (const model::HostPortRow& row : rows) {
    for (const auto& [other, taken] : pods_) {
      if (other == uid) continue;
      const bool clash =
          std::any_of(taken.begin(), taken.end(), [&](const auto& t) { return Clash(t, row); });
      if (clash) return Clashing{other, row};
    }
  }
  return std::nullopt;
}

Result<void> HostRules::Set(const PodUid& uid, const std::vector<model::HostPortRow>& rows,
                            sys::Rtnl& node, std::vector<std::string>& warnings) {
  const auto known = pods_.find(uid);
  const std::vector<model::HostPortRow> before =
      known == pods_.end() ? std::vector<model::HostPortRow>() : known->second;
  if (rows.empty()) {
    pods_.erase(uid);
  } else {
    pods_[uid] = rows;
  }
  if (before != rows) Rebuild();
  RETURN_IF_ERROR(back_end_.Apply(table_));
  HOLDFAST_PAUSE_POINT("podnet.rules.applied");
  const auto warn = [&](const model::HostPortRow& row, const Result<void>& done) {
    if (!done)
      warnings.push_back(
          StrCat("host port ", ToString(row), ": stale flows stay: ", done.error().message()));
  };
  for (const model::HostPortRow& gone : Difference(before, rows)) warn(gone, DeleteFlowsOf(gone));
  for (const model::HostPortRow& added : Difference(rows, before))
    warn(added, DeleteFlowsToNode(added, node));
  return {};
}

Result<void> HostRules::DeleteFlowsOf(const model::HostPortRow& gone) {
  if (!HasStaleFlows(gone)) return {};
  auto deleted = sys::DeleteFlows(conntrack_, gone.host_ip.v6, static_cast<uint8_t>(gone.protocol),
                                  gone.host_port, [&](const sys::Flow& flow) {
                                    return flow.reply_source == gone.endpoint.ip &&
                                           flow.reply_source_port == gone.endpoint.port;
                                  });
  if (!deleted) return std::move(deleted.error());
  return {};
}

// A sender that was there before the pod: its flow is bound to the node itself.
Result<void> HostRules::DeleteFlowsToNode(const model::HostPortRow& added, sys::Rtnl& node) {
  if (!HasStaleFlows(added)) return {};
  std::set<IpAddress> own;
  if (added.host_ip.IsUnspecified()) {
    ASSIGN_OR_RETURN(const std::vector<sys::Address> addresses, node.ListAddresses());
    for (const sys::Address& a : addresses) own.insert(a.ip);
  } else {
    own.insert(added.host_ip);
  }
  auto deleted = sys::DeleteFlows(
      conntrack_, added.host_ip.v6, static_cast<uint8_t>(added.protocol), added.host_port,
      [&](const sys::Flow& flow) {
        return own.contains(flow.original_destination) && flow.reply_source != added.endpoint.ip;
      });
  if (!deleted) return std::move(deleted.error());
  return {};
}

Result<bool> HostRules::Ensure() { return back_end_.Ensure(table_); }

Result<bool> HostRules::AreInPlace() {
  ASSIGN_OR_RETURN(const nft::Transaction missing, back_end_.Missing(table_));
  return missing.empty();
}

Result<void> HostRules::Remove() { return back_end_.Remove(); }

void HostRules::Rebuild() {
  table_.host_ports.clear();
  for (const auto& [uid, rows] : pods_)
    table_.host_ports.insert(table_.host_ports.end(), rows.begin(), rows.end());
  std::sort(table_.host_ports.begin(), table_.host_ports.end());
}

}  // namespace holdfast::netproxy
