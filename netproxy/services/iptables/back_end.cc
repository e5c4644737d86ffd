// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/back_end.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/services/iptables/plan.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr const char* kRouteLocalnet = "net/ipv4/conf/all/route_localnet";
constexpr const char* kLiberal = "net/netfilter/nf_conntrack_tcp_be_liberal";

bool HasRows(const model::ServiceChange& change, bool v6) {
  return std::any_of(change.rows.begin(), change.rows.end(),
                     [&](const model::ServicePortRowPtr& row) { return row->key.v6 == v6; });
}

}  // namespace

IptablesBackEnd::IptablesBackEnd(std::unique_ptr<XtablesHost> host,
                                 std::vector<std::unique_ptr<XtablesHost>> others,
                                 std::shared_ptr<IptablesWatch> watch)
    : watch_(std::move(watch)),
      host_(std::move(host)),
      others_(std::move(others)),
      v4_(false, *host_),
      v6_(true, *host_) {}

Result<std::unique_ptr<IptablesBackEnd>> IptablesBackEnd::Open(const std::string& lock) {
  ASSIGN_OR_RETURN(Programs chosen, ChoosePrograms());
  ASSIGN_OR_RETURN(auto watch, OpenWatch(chosen));
  std::vector<std::unique_ptr<XtablesHost>> others;
  for (Programs& programs : FindPrograms()) {
    if (programs.name != chosen.name)
      others.push_back(NewProcessHost(std::move(programs), {lock, nullptr}));
  }
  auto host = NewProcessHost(std::move(chosen), {lock, watch});
  return std::make_unique<IptablesBackEnd>(std::move(host), std::move(others), std::move(watch));
}

Result<ServiceApplied> IptablesBackEnd::Apply(const model::ServiceChange& change) {
  const bool localhost = LocalhostNodePorts(*change.settings, false);
  if (!localhost) RETURN_IF_ERROR(ForbidLocalnet());
  ServiceApplied applied;
  RETURN_IF_ERROR(ApplyFamily(v4_, false, change, applied));
  // The guard is in place: KUBE-FIREWALL.
  if (localhost) RETURN_IF_ERROR(AllowLocalnet());
  RETURN_IF_ERROR(ApplyFamily(v6_, true, change, applied));
  std::sort(applied.refused.begin(), applied.refused.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return applied;
}

Result<void> IptablesBackEnd::ApplyFamily(FamilySync& family, bool v6,
                                          const model::ServiceChange& change,
                                          ServiceApplied& applied) {
  const bool wanted = !v6 || has_v6_ || HasRows(change, true);
  if (!wanted && !change.complete) return {};
  const auto liberal = host_->ReadSysctl(kLiberal);
  auto refused = family.Apply(change, liberal && *liberal == "1");
  if (!refused) {
    // A node without IPv6, and nobody who asks for it.
    const Code code = refused.error().code();
    const bool lasting = code != Code::kUnavailable && code != Code::kDeadlineExceeded;
    if (!wanted && lasting) return {};
    return std::move(refused.error());
  }
  if (v6) has_v6_ = true;
  std::move(refused->begin(), refused->end(), std::back_inserter(applied.refused));
  return {};
}

Result<uint64_t> IptablesBackEnd::Repair() {
  ASSIGN_OR_RETURN(const uint64_t v4, v4_.Repair());
  ASSIGN_OR_RETURN(const uint64_t v6, v6_.Repair());
  return v4 + v6;
}

Result<void> IptablesBackEnd::AllowLocalnet() {
  auto value = host_->ReadSysctl(kRouteLocalnet);
  if (!value) return std::move(value.error());
  if (*value != "0") return {};
  RETURN_IF_ERROR(host_->WriteSysctl(kRouteLocalnet, "1"));
  set_localnet_ = true;
  return {};
}

Result<void> IptablesBackEnd::ForbidLocalnet() {
  if (!std::exchange(set_localnet_, false)) return {};
  return host_->WriteSysctl(kRouteLocalnet, "0");
}

Result<bool> IptablesBackEnd::Remove() {
  v4_.Forget();
  v6_.Forget();
  has_v6_ = false;
  RETURN_IF_ERROR(ForbidLocalnet());
  // The guard goes only where nothing is routed that it guards against.
  const auto localnet = host_->ReadSysctl(kRouteLocalnet);
  const bool firewall = localnet && *localnet == "0";
  ASSIGN_OR_RETURN(bool any, Clean(*host_, firewall));
  for (const auto& other : others_) {
    ASSIGN_OR_RETURN(const bool more, Clean(*other, firewall));
    any |= more;
  }
  return any;
}

Result<bool> IptablesBackEnd::Clean(XtablesHost& host, bool firewall) {
  bool any = false;
  for (const bool v6 : {false, true}) {
    auto text = host.Save(v6);
    if (!text && v6 && text.error().code() == Code::kNotFound) continue;
    if (!text) return std::move(text.error());
    ASSIGN_OR_RETURN(const Saved saved, ParseSaved(*text));
    const std::string change = Clear(saved, firewall);
    if (change.empty()) continue;
    RETURN_IF_ERROR(host.Restore(v6, change));
    any = true;
  }
  return any;
}

std::vector<RuleCount> IptablesBackEnd::CountRules() const {
  std::vector<RuleCount> out = v4_.CountRules();
  const std::vector<RuleCount> more = has_v6_ ? v6_.CountRules() : std::vector<RuleCount>();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

Result<std::string> IptablesBackEnd::Dump() {
  std::string out;
  for (const bool v6 : {false, true}) {
    auto text = host_->Save(v6);
    if (!text && v6 && text.error().code() == Code::kNotFound) continue;
    if (!text) return std::move(text.error());
    ASSIGN_OR_RETURN(const Saved saved, ParseSaved(*text));
    out += StrCat("# ", v6 ? "IPv6: ip6tables" : "IPv4: iptables", "-restore --noflush\n",
                  PrintOurs(saved));
  }
  return out;
}

}  // namespace holdfast::netproxy::iptables
