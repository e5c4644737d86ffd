// SPDX-License-Identifier: Apache-2.0
// Announcements: stands between the driver and the back end, so that this node answers on the local
// segments for those addresses of Services, and only those, that the kernel has rules for. What it
// may never answer for is settled here: addresses outside the configured ranges, and the node's
// own; and who decides among several nodes: Leases, or priorities. Called as a back end is; the
// questions about it are thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/cluster/kubeconfig.h"
#include "agent/config/agent_config.h"
#include "agent/lease/lease_keeper.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/model/service.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/announce/announcer.h"
#include "netproxy/announce/wanted.h"

namespace holdfast::agent {

struct AnnounceOptions {
  std::vector<std::string> interfaces;
  std::vector<Cidr> ranges;
  uint8_t priority = 100;
  std::string ignored_link;  // addresses on it are not the node's own, but of Services
  std::string node_name;
  std::optional<KubeConfig> server;  // with it Leases decide, without it priorities
};

// Nothing when nothing is to be announced. kInvalidArgument names the field.
Result<std::optional<AnnounceOptions>> ReadAnnounceOptions(const model::Instance& instance,
                                                           const ProxyConfig& config);
// Whether the node may announce while Services are written with `mode`; the error says why not.
Result<void> CheckAnnounceMode(const ProxyConfig& config, const std::string& mode);

// This node began or ceased to answer for an address of a Service on one interface.
struct AddressHeld {
  bool held = false;
  std::string text;  // for people: "198.51.100.7 on eth0: this node answers for it now"
};

class Announcements : public ServiceBackEnd {
 public:
  using Log = std::function<void(const std::string& line)>;
  using Listener = std::function<void(const model::ServiceName&, const AddressHeld&)>;

  // In the network namespace of the calling thread. `rules` and `clock` are borrowed.
  static Result<std::unique_ptr<Announcements>> Start(const AnnounceOptions& options,
                                                      ServiceBackEnd& rules, const Clock& clock,
                                                      Log log);

  Result<ServiceApplied> Apply(const model::ServiceChange& change) override;
  // Looks at the node's own addresses again, too.
  Result<uint64_t> Repair() override;
  Result<bool> Remove() override { return rules_.Remove(); }
  std::vector<RuleCount> CountRules() const override { return rules_.CountRules(); }
  Result<std::string> Dump() override { return rules_.Dump(); }

  // Called from a thread of its own, for each Service that has the address. After this call the one
  // before runs no more.
  void SetListener(Listener listener);

  // One line per interface: "eth0: held by this node, priority 100".
  std::vector<std::string> Of(const IpAddress& address) const;
  std::vector<netproxy::announce::AddressStatus> Status() const { return announcer_->Status(); }

 private:
  Announcements(AnnounceOptions options, ServiceBackEnd& rules, sys::Rtnl rtnl,
                std::unique_ptr<LeaseKeeper> leases, Log log)
      : options_(std::move(options)),
        rules_(rules),
        rtnl_(std::move(rtnl)),
        leases_(std::move(leases)),
        log_(std::move(log)) {}
  Result<void> StartAnnouncer(const Clock& clock);
  void Update();
  Result<void> TryUpdate();
  // From the announcer's thread.
  void Hear(const netproxy::announce::SegmentNews& news);
  std::set<model::ServiceName> UsersOf(const netproxy::announce::SegmentNews& news);

  const AnnounceOptions options_;
  ServiceBackEnd& rules_;
  sys::Rtnl rtnl_;
  const std::unique_ptr<LeaseKeeper> leases_;  // none where priorities decide
  const Log log_;
  bool stale_ = false;  // what the announcer has was not updated

  std::mutex mutex_;  // guards what follows
  netproxy::announce::WantedAddresses wanted_;
  // Who was told that it is held: some have lost it by the time it is released.
  std::map<std::pair<std::string, IpAddress>, std::set<model::ServiceName>> told_;

  std::mutex listener_mutex_;  // guards listener_; held while it runs
  Listener listener_;

  std::unique_ptr<netproxy::announce::Announcer> announcer_;  // its thread uses what is above
};

}  // namespace holdfast::agent
