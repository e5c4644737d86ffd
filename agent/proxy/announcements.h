// SPDX-License-Identifier: Apache-2.0
// Announcements: stands between the driver and the back end, so that this node answers on the local
// segments for those addresses of Services, and only those, that the kernel has rules for. What it
// may never answer for is settled here: addresses outside the configured ranges, and the node's
// own. Called as a back end is; the questions about it are thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/agent_config.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/announce/announcer.h"
#include "netproxy/announce/wanted.h"

namespace holdfast::agent {

struct AnnounceOptions {
  std::vector<std::string> interfaces;
  std::vector<Cidr> ranges;
  uint8_t priority = 100;
  std::string ignored_link;  // addresses on it are not the node's own, but of Services
};

// Nothing when nothing is to be announced. kInvalidArgument names the field.
Result<std::optional<AnnounceOptions>> ReadAnnounceOptions(const AgentConfig& config);
// Whether the node may announce while Services are written with `mode`; the error says why not.
Result<void> CheckAnnounceMode(const AgentConfig& config, const std::string& mode);

class Announcements : public ServiceBackEnd {
 public:
  using Log = std::function<void(const std::string& line)>;

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

  // One line per interface: "eth0: held by this node, priority 100".
  std::vector<std::string> Of(const IpAddress& address) const;
  std::vector<netproxy::announce::AddressStatus> Status() const { return announcer_->Status(); }

 private:
  Announcements(AnnounceOptions options, ServiceBackEnd& rules, sys::Rtnl rtnl,
                std::unique_ptr<netproxy::announce::Announcer> announcer, Log log)
      : options_(std::move(options)),
        rules_(rules),
        rtnl_(std::move(rtnl)),
        announcer_(std::move(announcer)),
        log_(std::move(log)) {}
  void Update();
  Result<void> TryUpdate();

  const AnnounceOptions options_;
  ServiceBackEnd& rules_;
  sys::Rtnl rtnl_;
  const std::unique_ptr<netproxy::announce::Announcer> announcer_;
  const Log log_;
  netproxy::announce::WantedAddresses wanted_;
  bool stale_ = false;  // what the announcer has was not updated
};

}  // namespace holdfast::agent
