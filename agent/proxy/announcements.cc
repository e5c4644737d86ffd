// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/announcements.h"

#include <algorithm>
#include <set>

#include "agent/proxy/back_ends.h"
#include "holdfast/base/strings.h"
#include "netproxy/announce/lease_seat.h"
#include "netproxy/announce/segment_election.h"
#include "netproxy/table/service_rows.h"

namespace holdfast::agent {
namespace {

using netproxy::announce::Announcer;
using netproxy::announce::Election;
using netproxy::announce::LeaseSeat;
using netproxy::announce::MacAddress;
using netproxy::announce::SegmentElection;
using netproxy::announce::SegmentNews;
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

Result<std::vector<Cidr>> ReadRanges(const model::Instance& instance, const ProxyConfig& config) {
  constexpr size_t kMost = 64;  // the kernel's filter has so much room
  std::vector<Cidr> ranges;
  for (const std::string& text : config.announce.addresses) {
    auto range = Cidr::Parse(text);
    if (!range) return std::move(range.error()).Wrap("announceAddresses");
    RETURN_IF_ERROR(CheckApart(*range, "podCIDRs", instance.pod_cidrs));
    RETURN_IF_ERROR(CheckApart(*range, "serviceCIDRs", config.service_cidrs));
    ranges.push_back(*range);
  }
  if (ranges.size() > kMost) {
    return InvalidArgument(StrCat("announceAddresses: more than ", kMost, " ranges"));
  }
  return ranges;
}

Result<void> CheckInterfaces(const model::Instance& instance, const AnnounceConfig& config) {
  std::set<std::string> seen;
  for (const std::string& name : config.interfaces) {
    if (name.starts_with(instance.interface_prefix)) {
      return InvalidArgument(StrCat("announceInterfaces: ", name, " is an interface of a pod"));
    }
    if (!seen.insert(name).second) {
      return InvalidArgument(StrCat("announceInterfaces: ", name, " is named twice"));
    }
  }
  return {};
}

}  // namespace

Result<void> CheckAnnounceMode(const ProxyConfig& config, const std::string& mode) {
  if (config.announce.interfaces.empty() || mode != "ipvs" || config.ipvs.strict_arp) return {};
  return InvalidArgument(
      "announceInterfaces: in the mode ipvs every node has the addresses and would answer for "
      "them; set ipvsStrictARP");
}

Result<std::optional<AnnounceOptions>> ReadAnnounceOptions(const model::Instance& instance,
                                                           const ProxyConfig& config) {
  std::optional<KubeConfig> server;
  if (!config.announce.kubeconfig.empty()) {
    ASSIGN_OR_RETURN(server,
                     WithContext(ReadKubeConfig(config.announce.kubeconfig), "announceKubeconfig"));
  }
  if (config.announce.interfaces.empty() && config.announce.addresses.empty()) {
    return std::optional<AnnounceOptions>();
  }
  if (config.announce.interfaces.empty()) {
    return InvalidArgument("announceAddresses: announceInterfaces must say where");
  }
  if (config.announce.addresses.empty()) {
    return InvalidArgument("announceInterfaces: announceAddresses must say which addresses");
  }
  RETURN_IF_ERROR(CheckInterfaces(instance, config.announce));
  RETURN_IF_ERROR(CheckAnnounceMode(config, config.mode));
  AnnounceOptions options;
  options.interfaces = config.announce.interfaces;
  options.priority = static_cast<uint8_t>(config.announce.priority);
  options.ignored_link = IpvsDevice(instance);
  options.node_name = instance.node_name;
  options.server = std::move(server);
  ASSIGN_OR_RETURN(options.ranges, ReadRanges(instance, config));
  return std::optional(std::move(options));
}

namespace {

// None where priorities decide.
Result<std::unique_ptr<LeaseKeeper>> StartLeases(const AnnounceOptions& options, const Clock& clock,
                                                 const Announcements::Log& log) {
  if (!options.server) return std::unique_ptr<LeaseKeeper>();
  LeaseKeeperOptions keeper;
  keeper.server = *options.server;
  ASSIGN_OR_RETURN(keeper.identity, NewLeaseIdentity(options.node_name));
  keeper.log = log;
  return WithContext(LeaseKeeper::Start(std::move(keeper), clock), "announceKubeconfig");
}

std::unique_ptr<Election> Elect(LeaseKeeper* leases, uint8_t priority, const IpAddress& address,
                                const MacAddress& own, BootTime now) {
  if (leases == nullptr) return std::make_unique<SegmentElection>(own, priority, now);
  return std::make_unique<LeaseSeat>(leases->LeaseOf(address), own, now);
}

}  // namespace

Result<std::unique_ptr<Announcements>> Announcements::Start(const AnnounceOptions& options,
                                                            ServiceBackEnd& rules,
                                                            const Clock& clock, Log log) {
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  ASSIGN_OR_RETURN(auto leases, StartLeases(options, clock, log));
  std::unique_ptr<Announcements> made(
      new Announcements(options, rules, std::move(rtnl), std::move(leases), std::move(log)));
  RETURN_IF_ERROR(made->StartAnnouncer(clock));
  return made;
}

Result<void> Announcements::StartAnnouncer(const Clock& clock) {
  std::vector<SegmentOptions> segments;
  for (const std::string& interface : options_.interfaces) {
    SegmentOptions& segment = segments.emplace_back();
    segment.interface = interface;
    segment.ranges = options_.ranges;
    segment.priority = options_.priority;
    segment.elect = [this](const IpAddress& address, const MacAddress& own, BootTime now) {
      return Elect(leases_.get(), options_.priority, address, own, now);
    };
  }
  const auto news = [this](const SegmentNews& told) { Hear(told); };
  ASSIGN_OR_RETURN(announcer_, Announcer::Start(std::move(segments), clock, news));
  return {};
}

void Announcements::SetListener(Listener listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

std::set<model::ServiceName> Announcements::UsersOf(const SegmentNews& news) {
  const std::lock_guard lock(mutex_);
  std::set<model::ServiceName> users;
  for (const std::string& port : wanted_.UsersOf(news.address)) {
    users.insert(netproxy::ServiceOf(port));
  }
  const auto place = std::make_pair(news.interface, news.address);
  if (*news.held) {
    told_[place] = users;
  } else {
    users.merge(told_[place]);
    told_.erase(place);
  }
  return users;
}

void Announcements::Hear(const SegmentNews& news) {
  log_(StrCat("announcing ", news.text));
  if (!news.held) return;
  const std::set<model::ServiceName> users = UsersOf(news);
  const std::lock_guard lock(listener_mutex_);
  if (!listener_) return;
  for (const model::ServiceName& user : users) listener_(user, {*news.held, news.text});
}

Result<ServiceApplied> Announcements::Apply(const model::ServiceChange& change) {
  ASSIGN_OR_RETURN(ServiceApplied applied, rules_.Apply(change));
  // A change that cost nothing here, as nearly all do, does not ask the kernel for addresses.
  {
    const std::lock_guard lock(mutex_);
    stale_ |= wanted_.Apply(change, applied);
  }
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
  std::set<IpAddress> addresses;
  {
    const std::lock_guard lock(mutex_);
    addresses = wanted_.addresses();
  }
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
