// SPDX-License-Identifier: Apache-2.0
// What can write Services into the kernel, by the mode's name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/service_back_end.h"
#include "holdfast/model/instance.h"
#include "netproxy/services/ipvs/options.h"

namespace holdfast::agent {

struct OpenedBackEnd {
  std::unique_ptr<ServiceBackEnd> back_end;
  // Tells that somebody else touched the rules.
  std::shared_ptr<RulesWatch> watch;
};

// "nftables", "iptables", "ipvs": the values of proxyMode.
std::vector<std::string> ProxyModes();

// The table of Services in the nftables mode.
std::string ServiceTableName(const model::Instance& instance);

// What the mode ipvs puts the addresses of Services on.
std::string IpvsDevice(const model::Instance& instance);

// Bound to the network namespace of the calling thread. kNotFound where a program or a module of
// the kernel is missing.
// `ipvs` has what the configuration says of that mode.
Result<OpenedBackEnd> OpenBackEnd(const std::string& mode, const model::Instance& instance,
                                  const netproxy::ipvs::IpvsOptions& ipvs = {});
// ServiceBackEnd::Remove() where that needs nothing that may be missing; nullopt: it does.
Result<std::optional<bool>> RemoveUnopened(const std::string& mode, const model::Instance& instance,
                                           const netproxy::ipvs::IpvsOptions& ipvs);
Result<netproxy::ipvs::IpvsOptions> ReadIpvsOptions(const IpvsConfig& config);

}  // namespace holdfast::agent
