// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/announcements.h"

#include <algorithm>
#include <set>

#include "agent/proxy/back_ends.h"
#include "holdfast/base/strings.h"
#include "netproxy/announce/segment_election.h"

namespace holdfast::agent {
namespace {

using netproxy::announce::Announcer;
using netproxy::announce::MacAddress;
using netproxy::announce::SegmentElection;
using netproxy::announce::SegmentOptions;

bool Overlap(const Cidr& a, const Cidr& b) {
  return a.Contains(b.network) || b.Contains(a.network);
}

Result<void> CheckApart(const Cidr& range, const char* field,
                        const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(const Cidr other, Cidr::Parse(text));
    if (!Overlap(range, other)) continue;
    return InvalidArgument(
        StrCat("announceAddresses: ", range.ToString(), " overlaps ", field, " ", text));
  }
  return {};
}

Result<std::vector<Cidr>> ReadRanges(const AgentConfig& config) {
  constexpr size_t kMost = 64;  // the kernel's filter has so much room
  std::vector<Cidr> ranges;
  for (const std::string& text : config.announce_addresses) {
    auto range = Cidr::Parse(text);
    if (!range) return std::move(range.error()).Wrap("announceAddresses");
    RETURN_IF_ERROR(CheckApart(*range, "podCIDRs", config.instance.pod_cidrs));
    RETURN_IF_ERROR(CheckApart(*range, "serviceCIDRs", config.service_cidrs));
    ranges.push_back(*range);
  }
  if (ranges.size() > kMost) {
    return InvalidArgument(StrCat("announceAddresses: more than ", kMost, " ranges"));
  }
  return ranges;
}

Result<void> CheckInterfaces(const AgentConfig& config) {
  std::set<std::string> seen;
  for (const std::string& name : config.announce_interfaces) {
    if (name.starts_with(config.instance.interface_prefix)) {
      return InvalidArgument(StrCat("announceInterfaces: ", name, " is an interface of a pod"));
    }
    if (!seen.insert(name).second) {
      return InvalidArgument(StrCat("announceInterfaces: ", name, " is named twice"));
    }
  }
  return {};
}

}  // namespace

Result<void> CheckAnnounceMode(const AgentConfig& config, const std::string& mode) {
  if (config.announce_interfaces.empty() || mode != "ipvs" || config.ipvs_strict_arp) return {};
  return InvalidArgument(
      "announceInterfaces: in the mode ipvs every node has the addresses and would answer for "
      "them; set ipvsStrictARP");
}

Result<std::optional<AnnounceOptions>> ReadAnnounceOptions(const AgentConfig& config) {
  if (config.announce_interfaces.empty() && config.announce_addresses.empty()) {
    return std::optional<AnnounceOptions>();
  }
  if (config.announce_interfaces.empty()) {
    return InvalidArgument("announceAddresses: announceInterfaces must say where");
  }
  if (config.announce_addresses.empty()) {
    return InvalidArgument("announceInterfaces: announceAddresses must say which addresses");
  }
  RETURN_IF_ERROR(CheckInterfaces(config));
  RETURN_IF_ERROR(CheckAnnounceMode(config, config.proxy_mode));
  AnnounceOptions options;
  options.interfaces = config.announce_interfaces;
  options.priority = static_cast<uint8_t>(config.announce_priority);
  options.ignored_link = IpvsDevice(config.instance);
  ASSIGN_OR_RETURN(options.ranges, ReadRanges(config));
  return std::optional(std::move(options));
}

Result<std::unique_ptr<Announcements>> Announcements::Start(const AnnounceOptions& options,
                                                            ServiceBackEnd& rules,
                                                            const Clock& clock, Log log) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  std::vector<SegmentOptions> segments;
  for (const std::string& interface : options.interfaces) {
    SegmentOptions& segment = segments.emplace_back();
    segment.interface = interface;
    segment.ranges = options.ranges;
    segment.priority = options.priority;
    segment.elect = [priority = options.priority](const IpAddress&, const MacAddress& own,
                                                  BootTime now) {
      return std::make_unique<SegmentElection>(own, priority, now);
    };
  }
  const auto news = [log](const std::string& line) { log(StrCat("announcing ", line)); };
  ASSIGN_OR_RETURN(auto announcer, Announcer::Start(std::move(segments), clock, news));
  return std::unique_ptr<Announcements>(
      new Announcements(options, rules, std::move(rtnl), std::move(announcer), std::move(log)));
}

Result<ServiceApplied> Announcements::Apply(const model::ServiceChange& change) {
  ASSIGN_OR_RETURN(ServiceApplied applied, rules_.Apply(change));
  // A change that cost nothing here, as nearly all do, does not ask the kernel for addresses.
  stale_ |= wanted_.Apply(change, applied);
  if (stale_) Update();
  return applied;
}

Result<uint64_t> Announcements::Repair() {
  Update();
  return rules_.Repair();
}

void Announcements::Update() {
  const auto updated = TryUpdate();
  if (!updated) log_(StrCat("announcing addresses: ", updated.error().message()));
  stale_ = !updated;
}

// The node's own addresses are its kernel's matter, whoever else wants them.
Result<void> Announcements::TryUpdate() {
  std::set<IpAddress> addresses = wanted_.addresses();
  const auto ignored = rtnl_.GetLink(options_.ignored_link);
  ASSIGN_OR_RETURN(const std::vector<sys::Address> own, rtnl_.ListAddresses());
  for (const sys::Address& address : own) {
    if (!ignored || address.link != ignored->index) addresses.erase(address.ip);
  }
  announcer_->SetAddresses(addresses);
  return {};
}

std::vector<std::string> Announcements::Of(const IpAddress& address) const {
  std::vector<std::string> out;
  for (const netproxy::announce::AddressStatus& status : announcer_->Status()) {
    if (status.address == address) out.push_back(StrCat(status.interface, ": ", status.text));
  }
  return out;
}

}  // namespace holdfast::agent
