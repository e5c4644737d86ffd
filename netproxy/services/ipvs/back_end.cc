// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/back_end.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"
#include "netproxy/services/ipvs/probe.h"

namespace holdfast::netproxy::ipvs {
namespace {

bool InAny(const std::vector<Cidr>& cidrs, const IpAddress& ip) {
  return std::any_of(cidrs.begin(), cidrs.end(),
                     [&](const Cidr& cidr) { return cidr.Contains(ip); });
}

bool AllZero(const std::vector<int>& errors) {
  return std::all_of(errors.begin(), errors.end(), [](int error) { return error == 0; });
}

// What no change of a row would mend.
bool IsShortage(int error) { return error == ENOMEM || error == ENOBUFS || error == EINTR; }

}  // namespace

IpvsBackEnd::IpvsBackEnd(IpvsOptions options, uint32_t flags, IpvsKernel kernel, sys::NfSocket nft,
                         ServiceAddresses addresses)
    : options_(std::move(options)),
      scheduler_flags_(flags),
      kernel_(std::move(kernel)),
      nft_(std::move(nft)),
      addresses_(std::move(addresses)),
      parameters_(options_.state_dir) {}

Result<std::unique_ptr<IpvsBackEnd>> IpvsBackEnd::Open(IpvsOptions options) {
  RETURN_IF_ERROR(CheckKernel(options));
  ASSIGN_OR_RETURN(const uint32_t flags, SchedulerFlags(options));
  ASSIGN_OR_RETURN(IpvsKernel kernel, IpvsKernel::Open());
  ASSIGN_OR_RETURN(sys::NfSocket nft, sys::NfSocket::Open());
  ASSIGN_OR_RETURN(ServiceAddresses addresses,
                   ServiceAddresses::Open(options.device, options.use_dummy));
  return std::unique_ptr<IpvsBackEnd>(new IpvsBackEnd(std::move(options), flags, std::move(kernel),
                                                      std::move(nft), std::move(addresses)));
}

Result<ServiceApplied> IpvsBackEnd::Apply(const model::ServiceChange& change) {
  if (!change.complete && !settings_) {
    return InvalidArgument("ipvs: the first change must be complete");
  }
  std::vector<Step> steps;
  for (const model::ServicePortKey& key : change.removed) steps.push_back({key, nullptr});
  for (const model::ServicePortRowPtr& row : change.rows) steps.push_back({row->key, row});
  const bool same = settings_ && (settings_ == change.settings || *settings_ == *change.settings);
  if (!same && !change.complete) {
    // Every row is compiled anew.
    book_.Enter(steps);
    steps.clear();
    for (model::ServicePortRowPtr& row : book_.AllRows()) steps.push_back({row->key, row});
  }
  settings_ = change.settings;
  auto applied = change.complete || !same ? ApplyAll(steps) : ApplySome(steps);
  if (!applied) settings_.reset();  // nothing is known: the next one must be complete
  return applied;
}

Result<CompileContext> IpvsBackEnd::Context() {
  CompileContext context;
  context.config.scheduler = options_.scheduler;
  context.config.flags = scheduler_flags_ | kOwnFlag;
  context.masquerade_mark = settings_->masquerade_mark;
  ASSIGN_OR_RETURN(context.node_addresses, addresses_.NodeAddresses());
  return context;
}

Result<ServiceApplied> IpvsBackEnd::ApplyAll(const std::vector<Step>& steps) {
  RETURN_IF_ERROR(parameters_.Set(options_, kernel_));
  ASSIGN_OR_RETURN(CompileContext context, Context());
  book_.Reset(std::move(context));
  book_.Enter(steps);
  ServiceApplied out;
  ASSIGN_OR_RETURN(const uint64_t differences, Synchronize(out.refused));
  (void)differences;  // a load, not a repair
  return out;
}

Result<ServiceApplied> IpvsBackEnd::ApplySome(const std::vector<Step>& steps) {
  const Book::Delta delta = book_.Enter(steps);
  ServiceApplied out;
  const auto sent = Send(delta);
  if (sent && *sent) return out;
  // Either the kernel does not take some of it, or it is no longer what we think.
  ASSIGN_OR_RETURN(const uint64_t differences, Synchronize(out.refused));
  (void)differences;
  return out;
}

// Real servers first, then packets are let in, then what goes goes.
Result<bool> IpvsBackEnd::Send(const Book::Delta& delta) {
  Plan plan;
  std::set<IpAddress> looked_at = delta.addresses;
  const BootTime now = clock_.Boot();
  for (const VirtualKey& key : delta.virtuals) {
    PlanServer(known_, key, book_.Find(key), now, plan);
    if (key.mark == 0) looked_at.insert(key.address);
  }
  ASSIGN_OR_RETURN(const std::vector<int> grown, kernel_.Send(plan.grow));
  if (!AllZero(grown)) return false;
  std::set<IpAddress> came;
  std::set<IpAddress> went;
  for (const IpAddress& address : looked_at) {
    const bool wanted = MustBeBound(address);
    if (wanted && !bound_.contains(address)) came.insert(address);
    if (!wanted && bound_.contains(address)) went.insert(address);
  }
  RETURN_IF_ERROR(nft::Commit(nft_, ChangeRules(delta, came)));
  for (const IpAddress& address : came) {
    RETURN_IF_ERROR(addresses_.Bind(address));
    bound_.insert(address);
  }
  ASSIGN_OR_RETURN(const std::vector<int> shrunk, kernel_.Send(plan.shrink));
  if (!AllZero(shrunk)) return false;
  RETURN_IF_ERROR(Unbind(went));
  return true;
}

// --- What the kernel has ---

bool IpvsBackEnd::IsOurs(const VirtualKey& key, const VirtualConfig& config) const {
  if (key.mark == 0 && InAny(options_.exclude_cidrs, key.address)) return false;
  return (config.flags & kOwnFlag) != 0 || book_.Find(key) != nullptr;
}

Result<Observed> IpvsBackEnd::ObserveOurs() {
  ASSIGN_OR_RETURN(Observed observed, kernel_.ListVirtuals());
  std::erase_if(observed,
                [&](const auto& server) { return !IsOurs(server.first, server.second.config); });
  RETURN_IF_ERROR(kernel_.ListReals(observed));
  return observed;
}

Result<uint64_t> IpvsBackEnd::Synchronize(std::vector<RefusedServicePort>& refused) {
  uint64_t differences = 0;
  for (;;) {
    const size_t before = refused.size();
    ASSIGN_OR_RETURN(const uint64_t found, SynchronizeOnce(refused));
    differences += found;
    if (refused.size() == before) break;
    std::vector<Step> out;
    for (size_t i = before; i < refused.size(); ++i) out.push_back({refused[i].key, nullptr});
    book_.Enter(out);
  }
  std::sort(refused.begin(), refused.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  // Two addresses of one row.
  refused.erase(std::unique(refused.begin(), refused.end(),
                            [](const auto& a, const auto& b) { return a.key == b.key; }),
                refused.end());
  return differences;
}

Result<uint64_t> IpvsBackEnd::SynchronizeOnce(std::vector<RefusedServicePort>& refused) {
  RETURN_IF_ERROR(addresses_.Prepare());
  ASSIGN_OR_RETURN(bound_, addresses_.List());
  ASSIGN_OR_RETURN(const Observed observed, ObserveOurs());
  const BootTime now = clock_.Boot();
  known_ = FromObserved(observed, known_, now);
  Plan plan;
  std::set<VirtualKey> keys;
  for (const auto& [key, server] : known_) keys.insert(key);
  for (const auto& [key, server] : book_.virtuals()) keys.insert(key);
  for (const VirtualKey& key : keys) PlanServer(known_, key, book_.Find(key), now, plan);
  const uint64_t differences = plan.grow.size() + plan.shrink.size();
  ASSIGN_OR_RETURN(std::vector<RefusedServicePort> grown, Grow(plan.grow));
  if (!grown.empty()) {
    std::move(grown.begin(), grown.end(), std::back_inserter(refused));
    return differences;
  }
  ASSIGN_OR_RETURN(const uint64_t rules, SynchronizeRules());
  ASSIGN_OR_RETURN(const uint64_t addresses, SynchronizeAddresses(refused));
  RETURN_IF_ERROR(SendAway(plan.shrink));
  RETURN_IF_ERROR(Sweep(observed, now));
  return differences + rules + addresses;
}

// Gone meanwhile is as good.
Result<void> IpvsBackEnd::SendAway(const std::vector<Operation>& operations) {
  ASSIGN_OR_RETURN(const std::vector<int> errors, kernel_.Send(operations));
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] == 0 || errors[i] == ENOENT || errors[i] == ESRCH) continue;
    return Error::FromErrno(errors[i], StrCat("ipvsadm ", ToString(operations[i])));
  }
  return {};
}

// The course of things, and no difference.
Result<void> IpvsBackEnd::Sweep(const Observed& observed, BootTime now) {
  const std::vector<Operation> ended =
      PlanSweep(known_, book_, observed, now, options_.drain_limit);
  RETURN_IF_ERROR(SendAway(ended));
  std::set<IpAddress> went;
  for (const Operation& operation : ended) {
    const IpAddress& address = operation.key.address;
    if (operation.key.mark == 0 && bound_.contains(address) && !MustBeBound(address)) {
      went.insert(address);
    }
  }
  return Unbind(went);
}

Result<std::vector<RefusedServicePort>> IpvsBackEnd::Grow(
    const std::vector<Operation>& operations) {
  std::vector<RefusedServicePort> refused;
  ASSIGN_OR_RETURN(const std::vector<int> errors, kernel_.Send(operations));
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] == 0) continue;
    Error error = Error::FromErrno(errors[i], StrCat("ipvsadm ", ToString(operations[i])));
    const model::ServicePortKey* owner = book_.OwnerOf(operations[i].key);
    if (IsShortage(errors[i]) || owner == nullptr) return error;
    const bool told =
        std::any_of(refused.begin(), refused.end(), [&](const auto& r) { return r.key == *owner; });
    if (!told) refused.push_back({*owner, error.message()});
  }
  return refused;
}

// --- Addresses ---

bool IpvsBackEnd::MustBeBound(const IpAddress& address) const {
  if (book_.Wants(address)) return true;
  return std::any_of(std::begin(kProtocols), std::end(kProtocols), [&](uint8_t protocol) {
    const auto first = known_.lower_bound({address.v6, 0, protocol, address, 0});
    return first != known_.end() && first->first.mark == 0 && first->first.protocol == protocol &&
           first->first.address == address;
  });
}

std::set<IpAddress> IpvsBackEnd::WantedAddresses() const {
  std::set<IpAddress> out;
  for (const IpAddress& address : book_.Addresses()) out.insert(address);
  for (const auto& [key, server] : known_) {
    // What the node has by itself meanwhile is no longer ours to bind.
    if (key.mark == 0 && !book_.context().node_addresses.contains(key.address)) {
      out.insert(key.address);
    }
  }
  return out;
}

// Nobody has the address before our rules forget it.
Result<void> IpvsBackEnd::Unbind(const std::set<IpAddress>& addresses) {
  nft::Transaction forget;
  for (const IpAddress& address : addresses) {
    RETURN_IF_ERROR(addresses_.Unbind(address));
    bound_.erase(address);
    if (!has_rules_[address.v6 ? 1 : 0]) continue;
    forget.operations.push_back(
        {address.v6 ? nft::Family::kIp6 : nft::Family::kIp, options_.nft_table,
         nft::DeleteElements{FormOf({RuleSet::kAddresses}),
                             {{nft::PackAddress(address), nft::Bytes(), ""}}}});
  }
  return nft::Commit(nft_, forget);
}

Result<uint64_t> IpvsBackEnd::SynchronizeAddresses(std::vector<RefusedServicePort>& refused) {
  const std::set<IpAddress> wanted = WantedAddresses();
  uint64_t differences = 0;
  for (const IpAddress& address : wanted) {
    if (bound_.contains(address)) continue;
    const auto bound = addresses_.Bind(address);
    const std::vector<model::ServicePortKey> rows =
        bound ? std::vector<model::ServicePortKey>() : book_.RowsAt(address);
    if (!bound && IsShortage(bound.error().sys_errno())) return bound.error();
    // Of nobody: what is ending there has no connections.
    if (!bound && rows.empty()) continue;
    for (const model::ServicePortKey& key : rows) refused.push_back({key, bound.error().message()});
    ++differences;
  }
  for (const IpAddress& address : bound_) {
    if (wanted.contains(address)) continue;
    RETURN_IF_ERROR(addresses_.Unbind(address));
    ++differences;
  }
  bound_ = wanted;
  return differences;
}

// --- The rest ---

Result<uint64_t> IpvsBackEnd::Repair() {
  if (!settings_) return InvalidArgument("ipvs: nothing was applied yet");
  RETURN_IF_ERROR(parameters_.Set(options_, kernel_));
  ASSIGN_OR_RETURN(CompileContext context, Context());
  if (context.node_addresses != book_.context().node_addresses) {
    std::vector<Step> steps;
    for (model::ServicePortRowPtr& row : book_.AllRows()) steps.push_back({row->key, row});
    book_.Reset(std::move(context));
    book_.Enter(steps);
  }
  std::vector<RefusedServicePort> refused;
  ASSIGN_OR_RETURN(const uint64_t differences, Synchronize(refused));
  if (!refused.empty()) {
    return Internal(StrCat("ipvs: the kernel refuses what it had: ", refused.front().reason));
  }
  return differences;
}

Result<std::string> IpvsBackEnd::Dump() {
  if (!settings_) return InvalidArgument("ipvs: nothing was applied yet");
  std::string out = "# ipvsadm-restore\n";
  for (const auto& [key, server] : known_) {
    out += ToString({Operation::Kind::kNewVirtual, key, server.config, {}, 1}) + "\n";
    for (const auto& [endpoint, real] : server.reals) {
      out += ToString({Operation::Kind::kNewReal, key, {}, endpoint, real.weight}) + "\n";
    }
  }
  out += "# nft -f\n";
  for (const bool v6 : {false, true}) {
    if (has_rules_[v6 ? 1 : 0]) out += nft::Replace(RulesOf(v6, bound_)).ToString();
  }
  out += "# ip -batch\n";
  for (const IpAddress& ip : bound_) {
    const std::string prefix = StrCat(ip.ToString(), "/", static_cast<int>(ip.MaxPrefix()));
    out += addresses_.by_route() ? StrCat("route replace local ", prefix, " dev lo\n")
                                 : StrCat("address replace ", prefix, " dev ", options_.device,
                                          ip.v6 ? " preferred_lft 0\n" : " scope host\n");
  }
  return out;
}

Result<bool> IpvsBackEnd::Remove() {
  settings_.reset();
  book_.Reset({});
  known_.clear();
  bound_.clear();
  has_rules_ = {};
  return CleanUp(options_);
}

}  // namespace holdfast::netproxy::ipvs
