// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/pod_net.h"

#include <algorithm>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/sysctl.h"
#include "netproxy/podnet/node.h"
#include "netproxy/podnet/wiring.h"
#include "netproxy/table/host_ports.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kMaxPrefix = 4;        // + 11 digits = IFNAMSIZ - 1
constexpr size_t kReleasedPerCall = 2;  // keeps a call's cost flat while many pods go

Result<void> CheckFamilies(const std::vector<Cidr>& ranges) {
  const auto count = [&](bool v6) {
    return std::ranges::count_if(ranges, [v6](const Cidr& r) { return r.network.v6 == v6; });
  };
  if (count(false) <= 1 && count(true) <= 1) return {};
  return InvalidArgument(
      StrCat("pod CIDR ", ranges.back().ToString(), ": a second one of the same family"));
}

Result<std::vector<Cidr>> ReadRanges(const std::vector<std::string>& texts) {
  std::vector<Cidr> ranges;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const Cidr range, Cidr::Parse(text));
    ranges.push_back(range);
    RETURN_IF_ERROR(CheckFamilies(ranges));
  }
  return ranges;
}

Result<void> ValidatePrefix(const std::string& prefix) {
  const bool good = !prefix.empty() && prefix.size() <= kMaxPrefix &&
                    std::all_of(prefix.begin(), prefix.end(),
                                [](unsigned char c) { return std::isalnum(c) != 0; });
  if (good) return {};
  return InvalidArgument(StrCat("interface prefix \"", prefix, "\": 1 to ", kMaxPrefix,
                                " letters or digits are wanted"));
}

// IPv6 may be missing in the kernel or switched off on the node; pods then have IPv4 only.
bool HasIpv6() {
  for (const char* name :
       {"net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/default/disable_ipv6"}) {
    auto disabled = sys::ReadSysctl(name);
    if (!disabled || *disabled != "0") return false;
  }
  return true;
}

std::vector<std::string> ToText(const std::vector<IpAddress>& addresses) {
  std::vector<std::string> out;
  for (const IpAddress& a : addresses) out.push_back(a.ToString());
  return out;
}

}  // namespace

Result<std::unique_ptr<PodNet>> PodNet::Open(const model::Instance& instance) {
  RETURN_IF_ERROR(ValidatePrefix(instance.interface_prefix));
  ASSIGN_OR_RETURN(std::vector<Cidr> wanted, ReadRanges(instance.pod_cidrs));
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  ASSIGN_OR_RETURN(sys::Rtnl ready_rtnl, sys::Rtnl::Open());
  ASSIGN_OR_RETURN(HostRules rules,
                   HostRules::Open(instance.table_name, instance.interface_prefix));
  ASSIGN_OR_RETURN(AddressBook book, AddressBook::Open(instance.NetworkDir()));
  ASSIGN_OR_RETURN(NsFd home, sys::CurrentNetworkNamespace());
  std::unique_ptr<PodNet> net(new PodNet(instance, std::move(book), std::move(rtnl),
                                         std::move(home), std::move(ready_rtnl), std::move(rules)));
  ASSIGN_OR_RETURN(net->ready_.sysctls.home, sys::CurrentNetworkNamespace());
  RETURN_IF_ERROR(net->OpenRanges(std::move(wanted)));
  RETURN_IF_ERROR(net->AdoptRecords());
  return net;
}

// What is configured, or else what the last agent was told.
Result<void> PodNet::OpenRanges(std::vector<Cidr> configured) {
  auto known = LoadRanges(book_.directory());
  if (!known && known.error().code() == Code::kInvalidArgument) {
    warnings_.push_back(StrCat(known.error().message(), ", it is made anew"));
    known = RangeRecord();
  }
  RETURN_IF_ERROR(known);
  ranges_ = std::move(*known);
  if (configured.empty()) return UseRanges();
  return ChangeRanges(std::move(configured), {});
}

// Disk before book and rules: no address is given out of a range that the next start would not know.
Result<void> PodNet::ChangeRanges(std::vector<Cidr> own, std::vector<Cidr> direct) {
  RETURN_IF_ERROR(CheckFamilies(own));
  const bool drop_v6 =
      !HasIpv6() && std::erase_if(own, [](const Cidr& r) { return r.network.v6; }) > 0;
  if (drop_v6 && own.empty()) {
    return Unsupported("pod CIDRs: only IPv6 is wanted, and the node has IPv6 switched off");
  }
  RangeRecord ranges = Renewed(ranges_, std::move(own));
  ranges.direct = std::move(direct);
  if (drop_v6) {
    std::erase_if(ranges.former, [](const Cidr& r) { return r.network.v6; });
    warnings_.push_back("IPv6 is switched off on this node: pods get IPv4 addresses only");
  }
  if (ranges == ranges_) return UseRanges();
  RETURN_IF_ERROR(AddressBook::CheckRanges(ranges.own));
  RETURN_IF_ERROR(SaveRanges(book_.directory(), ranges));
  HOLDFAST_PAUSE_POINT("podnet.ranges.written");
  ranges_ = std::move(ranges);
  return UseRanges();
}

Result<void> PodNet::UseRanges() {
  RETURN_IF_ERROR(book_.SetRanges(ranges_.own));
  rules_.SetRanges(AllRanges(), ranges_.direct);
  return {};
}

Result<void> PodNet::SetRanges(std::vector<Cidr> own, std::optional<std::vector<Cidr>> direct) {
  const std::lock_guard lock(mutex_);
  if (own.empty()) own = ranges_.own;
  if (!direct) direct = ranges_.direct;
  RETURN_IF_ERROR(ChangeRanges(std::move(own), std::move(*direct)));
  if (!ensured_) return {};
  return EnsureLocked();
}

std::string PodNet::NotReadyBecause() {
  const std::lock_guard lock(mutex_);
  return ranges_.own.empty() ? "the Node has no spec.podCIDRs yet" : "";
}

std::vector<std::string> PodNet::LeftOut(const PodNetworkRequest& request) {
  if (request.bandwidth == PodBandwidth()) return {};
  return {
      "annotations kubernetes.io/ingress-bandwidth and kubernetes.io/egress-bandwidth: the "
      "built-in pod network limits no bandwidth"};
}

std::vector<Cidr> PodNet::AllRanges() const {
  std::vector<Cidr> all = ranges_.own;
  all.insert(all.end(), ranges_.former.begin(), ranges_.former.end());
  return all;
}

// What no pod has an address of any more goes, the record last.
Result<void> PodNet::DropFormerRanges() {
  RangeRecord left = ranges_;
  std::erase_if(left.former, [this](const Cidr& range) { return !IsHeld(range); });
  if (left == ranges_) return {};
  for (const Cidr& range : ranges_.former) {
    if (!IsHeld(range)) RETURN_IF_ERROR(RemoveRange(rtnl_, range));
  }
  RETURN_IF_ERROR(SaveRanges(book_.directory(), left));
  ranges_ = std::move(left);
  return UseRanges();
}

// By a pod whose address is of none of the present ranges.
bool PodNet::IsHeld(const Cidr& range) const {
  const auto is_own = [this](const IpAddress& a) {
    return std::ranges::any_of(ranges_.own, [&](const Cidr& own) { return own.Contains(a); });
  };
  return std::ranges::any_of(book_.records(), [&](const auto& entry) {
    return std::ranges::any_of(entry.second.addresses,
                               [&](const IpAddress& a) { return range.Contains(a) && !is_own(a); });
  });
}

Result<void> PodNet::AdoptRecords() {
  for (const auto& [uid, record] : book_.records()) {
    if (record.releasing) {
      releasing_.push_back(uid);
      continue;
    }
    ASSIGN_OR_RETURN(std::vector<model::HostPortRow> rows,
                     HostPortRows(record.host_ports, record.addresses));
    rules_.Adopt(uid, std::move(rows));
  }
  warnings_.insert(warnings_.end(), book_.problems().begin(), book_.problems().end());
  return MarkOccupied();
}

// A route to an interface of ours without a record (the directory was lost, a record damaged): its
// address is held by something that still runs.
Result<void> PodNet::MarkOccupied() {
  ASSIGN_OR_RETURN(std::set<IpAddress> routed, links_.RoutedAddresses());
  book_.SetOccupied(std::move(routed));
  return {};
}

Result<void> PodNet::Ensure() {
  const std::lock_guard lock(mutex_);
  // Not at start: a record may be of a pod whose wiring was cut short and goes on.
  if (ensured_) {
    ASSIGN_OR_RETURN(const std::vector<std::string> lost, links_.TellLost(book_.records()));
    warnings_.insert(warnings_.end(), lost.begin(), lost.end());
  }
  RETURN_IF_ERROR(EnsureLocked());
  RETURN_IF_ERROR(ReleaseGone(releasing_.size()));
  return MarkOccupied();
}

Result<void> PodNet::Release() {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(ReleaseGone(releasing_.size()));
  // One whose last pod went goes too, from the rules as well.
  if (ranges_.former.empty()) return {};
  return EnsureLocked();
}

Result<bool> PodNet::RepairRules() {
  const std::lock_guard lock(mutex_);
  if (!ensured_) return false;
  return rules_.Ensure();
}

// Rules before forwarding: no packet of a pod leaves unchecked.
Result<void> PodNet::EnsureLocked() {
  RETURN_IF_ERROR(DropFormerRanges());
  RETURN_IF_ERROR(rules_.Ensure());
  std::vector<std::string> warnings;
  RETURN_IF_ERROR(EnsureNode(rtnl_, AllRanges(), book_.directory(), warnings));
  ASSIGN_OR_RETURN(mtu_, UplinkMtu(rtnl_));
  if (warnings != node_warnings_)
    warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
  node_warnings_ = std::move(warnings);
  ensured_ = true;
  const bool v6 = std::ranges::any_of(ranges_.own, [](const Cidr& r) { return r.network.v6; });
  ready_shape_ = LinkShape{ranges_.own.empty() ? 0 : mtu_, v6};
  return {};
}

Result<void> PodNet::MakeReady(int network_namespace) {
  const LinkShape shape = ready_shape_;
  if (shape.mtu == 0) return {};
  std::vector<std::string> warnings;
  Result<void> made;
  {
    const std::lock_guard lock(ready_.mutex);
    made = MakeReadyLink(ready_.rtnl, ready_.sysctls, network_namespace, instance_.interface_prefix,
                         shape, warnings);
  }
  if (warnings.empty()) return made;
  const std::lock_guard lock(mutex_);
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
  return made;
}

Result<std::vector<std::string>> PodNet::Setup(const PodNetworkRequest& request) {
  const std::lock_guard lock(mutex_);
  auto done = SetupLocked(request);
  if (!done) {
    return std::move(done.error())
        .Wrap(StrCat("network of pod ", request.pod_namespace, "/", request.pod_name));
  }
  return done;
}

Result<std::vector<std::string>> PodNet::SetupLocked(const PodNetworkRequest& request) {
  if (ranges_.own.empty()) {
    return Error(
        Code::kUnavailable,
        "network is not ready: the Node has no spec.podCIDRs yet, and podCIDRs is not set");
  }
  if (!ensured_) RETURN_IF_ERROR(EnsureLocked());
  RETURN_IF_ERROR(ReleaseGone(kReleasedPerCall));
  ASSIGN_OR_RETURN(const PodRecord* record, EnsureRecord(request));
  ASSIGN_OR_RETURN(const std::vector<model::HostPortRow> rows,
                   HostPortRows(record->host_ports, record->addresses));
  RETURN_IF_ERROR(Wire(*record, HasLoopback(rows), request.network_namespace));
  RETURN_IF_ERROR(rules_.Set(record->uid, rows, rtnl_, warnings_));
  return ToText(record->addresses);
}

// The pod's record with the wanted hostPorts, made or found.
Result<const PodRecord*> PodNet::EnsureRecord(const PodNetworkRequest& request) {
  PodRecord record;
  record.uid = request.uid;
  record.pod_namespace = request.pod_namespace;
  record.pod_name = request.pod_name;
  record.host_ports = request.host_ports;
  RETURN_IF_ERROR(CheckHostPorts(record));
  const PodRecord* known = book_.Find(request.uid);
  if (known != nullptr && !FitsRanges(*known)) {  // the configuration changed
    ASSIGN_OR_RETURN(const bool wired, links_.IsThere(request.uid));
    if (!wired) {
      RETURN_IF_ERROR(book_.Free(request.uid));
      known = nullptr;
    }
  }
  if (known != nullptr) {
    record.addresses = known->addresses;
    if (*known == record) return known;
    std::erase(releasing_, request.uid);
    RETURN_IF_ERROR(book_.Update(record));
    return book_.Find(request.uid);
  }
  auto allocated = book_.Allocate(record);
  if (!allocated && allocated.error().code() == Code::kResourceExhausted) {
    RETURN_IF_ERROR(ReleaseGone(releasing_.size()));
    RETURN_IF_ERROR(MarkOccupied());
    allocated = book_.Allocate(record);
  }
  if (!allocated) return std::move(allocated.error());
  return book_.Find(request.uid);
}

// Before an address is taken: the answer depends on families only, not on the addresses.
Result<void> PodNet::CheckHostPorts(const PodRecord& record) {
  if (record.host_ports.empty()) return {};
  std::vector<IpAddress> families;
  for (const Cidr& range : ranges_.own) families.push_back(range.network);
  ASSIGN_OR_RETURN(const std::vector<model::HostPortRow> rows,
                   HostPortRows(record.host_ports, families));
  for (size_t i = 1; i < rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (Clash(rows[i], rows[j])) {
        return InvalidArgument(
            StrCat("host port ", ToString(rows[i]), ": wanted twice by the pod"));
      }
    }
  }
  const auto clash = rules_.FindClash(record.uid, rows);
  if (!clash) return {};
  const PodRecord* other = book_.Find(clash->holder);
  return Conflict(StrCat("host port ", ToString(clash->row), ": held by pod ", other->pod_namespace,
                         "/", other->pod_name));
}

bool PodNet::FitsRanges(const PodRecord& record) const {
  if (record.addresses.size() != ranges_.own.size()) return false;
  for (size_t i = 0; i < ranges_.own.size(); ++i) {
    if (!ranges_.own[i].Contains(record.addresses[i])) return false;
  }
  return true;
}

Result<void> PodNet::Wire(const PodRecord& record, bool loopback_ports, int netns) {
  PodWiring wiring;
  wiring.loopback_ports = loopback_ports;
  wiring.uid = record.uid;
  wiring.alias = InterfaceAlias(record.pod_namespace, record.pod_name, record.uid);
  wiring.mtu = mtu_;
  for (const IpAddress& a : record.addresses) {
    std::optional<IpAddress> node;
    for (const Cidr& range : AllRanges()) {
      if (range.Contains(a)) node = AddressBook::GatewayOf(range);
    }
    wiring.addresses.push_back({a, node});
  }
  return links_.Wire(netns, std::move(wiring), warnings_);
}

Result<void> PodNet::Teardown(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  auto done = TeardownLocked(uid);
  if (!done)
    return std::move(done.error()).Wrap(StrCat("take down the network of pod ", uid.value));
  return ReleaseGone(kReleasedPerCall);
}

// The record goes last: killed in between, the next Teardown or Audit finds everything again.
Result<void> PodNet::TeardownLocked(const PodUid& uid) {
  const PodRecord* known = book_.Find(uid);
  if (known == nullptr || known->releasing) return {};
  if (!known->host_ports.empty()) RETURN_IF_ERROR(rules_.Set(uid, {}, rtnl_, warnings_));
  HOLDFAST_PAUSE_POINT("podnet.teardown.rules_removed");
  RETURN_IF_ERROR(book_.Release(uid));
  releasing_.push_back(uid);
  HOLDFAST_PAUSE_POINT("podnet.teardown.releasing_written");
  return {};
}

Result<void> PodNet::ReleaseGone(size_t limit) {
  limit = std::min(limit, releasing_.size());
  for (size_t i = 0; i < limit; ++i) {
    const PodUid uid = releasing_.front();
    ASSIGN_OR_RETURN(const bool still_there, links_.IsThere(uid));
    if (!still_there) {
      RETURN_IF_ERROR(book_.Free(uid));
      links_.Forget(uid);
    }
    releasing_.pop_front();
    if (still_there) releasing_.push_back(uid);  // asked again later
  }
  return {};
}

std::vector<std::string> PodNet::Addresses(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const PodRecord* record = book_.Find(uid);
  if (record == nullptr || record->releasing) return {};
  return ToText(record->addresses);
}

std::vector<std::string> PodNet::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

Result<void> PodNet::RemoveNodeParts() {
  const std::lock_guard lock(mutex_);
  ensured_ = false;
  ready_shape_ = LinkShape();
  RETURN_IF_ERROR(RemoveNode(rtnl_, AllRanges(), book_.directory()));
  return rules_.Remove();
}

}  // namespace holdfast::netproxy
