// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/pod_net.h"

#include <algorithm>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/podnet/node.h"
#include "netproxy/podnet/wiring.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kMaxPrefix = 4;        // + 11 digits = IFNAMSIZ - 1
constexpr size_t kReleasedPerCall = 8;  // keeps one Setup's cost flat while many pods go

Result<std::vector<Cidr>> ParseRanges(const std::vector<std::string>& texts) {
  std::vector<Cidr> ranges;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const Cidr range, Cidr::Parse(text));
    for (const Cidr& other : ranges) {
      if (other.network.v6 == range.network.v6) {
        return InvalidArgument(StrCat("pod CIDR ", text, ": a second one of the same family"));
      }
    }
    ranges.push_back(range);
  }
  if (ranges.empty()) return InvalidArgument("pod CIDRs: none given");
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

std::vector<std::string> ToText(const std::vector<IpAddress>& addresses) {
  std::vector<std::string> out;
  for (const IpAddress& a : addresses) out.push_back(a.ToString());
  return out;
}

}  // namespace

Result<std::unique_ptr<PodNet>> PodNet::Open(const model::Instance& instance) {
  ASSIGN_OR_RETURN(std::vector<Cidr> ranges, ParseRanges(instance.pod_cidrs));
  RETURN_IF_ERROR(ValidatePrefix(instance.interface_prefix));
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  ASSIGN_OR_RETURN(AddressBook book, AddressBook::Open(instance.NetworkDir(), ranges));
  std::unique_ptr<PodNet> net(
      new PodNet(instance, std::move(ranges), std::move(book), std::move(rtnl)));
  for (const auto& [uid, record] : net->book_.records()) {
    if (record.releasing) net->releasing_.push_back(uid);
  }
  for (const std::string& damaged : net->book_.DamagedRecords()) {
    net->warnings_.push_back(StrCat(damaged, ", dropped"));
  }
  RETURN_IF_ERROR(net->MarkOccupied());
  return net;
}

// Routes to our interfaces without a record (the directory was lost, a record damaged): their
// addresses are held by something that still runs.
Result<void> PodNet::MarkOccupied() {
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, rtnl_.ListLinks());
  ASSIGN_OR_RETURN(const std::vector<sys::Route> routes, rtnl_.ListRoutes());
  std::set<int> ours;
  for (const sys::Link& link : links) {
    if (IsOurInterface(instance_.interface_prefix, link)) ours.insert(link.index);
  }
  std::set<IpAddress> occupied;
  for (const sys::Route& r : routes) {
    if (r.destination.prefix == r.destination.network.MaxPrefix() && ours.contains(r.link)) {
      occupied.insert(r.destination.network);
    }
  }
  book_.SetOccupied(std::move(occupied));
  return {};
}

Result<void> PodNet::Ensure() {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(EnsureNode(rtnl_, ranges_, book_.directory(), warnings_));
  ASSIGN_OR_RETURN(mtu_, UplinkMtu(rtnl_));
  RETURN_IF_ERROR(ReleaseGone(releasing_.size()));
  return MarkOccupied();
}

Result<std::vector<std::string>> PodNet::Setup(const PodNetworkRequest& request) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(ReleaseGone(kReleasedPerCall));
  auto record = EnsureRecord(request);
  if (!record) return std::move(record.error()).Wrap(StrCat("network of pod ", request.uid.value));
  auto wired = Wire(**record, request.network_namespace);
  if (!wired) return std::move(wired.error()).Wrap(StrCat("network of pod ", request.uid.value));
  return ToText((*record)->addresses);
}

// The pod's record with the wanted hostPorts, made or found.
Result<const PodRecord*> PodNet::EnsureRecord(const PodNetworkRequest& request) {
  PodRecord record;
  record.uid = request.uid;
  record.pod_namespace = request.pod_namespace;
  record.pod_name = request.pod_name;
  record.host_ports = request.host_ports;
  if (const PodRecord* known = book_.Find(request.uid); known != nullptr) {
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

Result<void> PodNet::Wire(const PodRecord& record, int netns) {
  if (mtu_ == 0) {
    ASSIGN_OR_RETURN(mtu_, UplinkMtu(rtnl_));
  }
  PodWiring wiring;
  wiring.uid = record.uid;
  wiring.interface = InterfaceName(instance_.interface_prefix, record.uid);
  wiring.alias =
      StrCat(record.pod_namespace, "/", record.pod_name, " ", record.uid.value).substr(0, 255);
  wiring.mtu = mtu_;
  wiring.addresses = record.addresses;
  for (const IpAddress& a : record.addresses) {
    for (const Cidr& range : ranges_) {
      if (range.network.v6 == a.v6) wiring.node_addresses.push_back(AddressBook::GatewayOf(range));
    }
  }
  return WirePod(rtnl_, netns, wiring, warnings_);
}

Result<void> PodNet::Teardown(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const PodRecord* known = book_.Find(uid);
  if (known == nullptr) return {};
  if (!known->releasing) {
    PodRecord record = *known;
    record.releasing = true;
    record.host_ports.clear();
    RETURN_IF_ERROR(book_.Update(record));
    releasing_.push_back(uid);
    HOLDFAST_PAUSE_POINT("podnet.teardown.releasing_written");
  }
  return ReleaseGone(kReleasedPerCall);
}

Result<void> PodNet::ReleaseGone(size_t limit) {
  limit = std::min(limit, releasing_.size());
  for (size_t i = 0; i < limit; ++i) {
    const PodUid uid = releasing_.front();
    auto link = rtnl_.GetLink(InterfaceName(instance_.interface_prefix, uid));
    if (!link && link.error().code() != Code::kNotFound) return std::move(link.error());
    if (!link) RETURN_IF_ERROR(book_.Free(uid));
    releasing_.pop_front();
    if (link) releasing_.push_back(uid);  // still there: asked again later
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
  return RemoveNode(rtnl_, ranges_, book_.directory());
}

}  // namespace holdfast::netproxy
