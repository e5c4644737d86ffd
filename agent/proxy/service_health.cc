// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_health.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/health/replies.h"
#include "netproxy/table/service_addresses.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kLongestWait{60};

}  // namespace

bool IsHealthy(const ServiceProxyHealth& health, BootTime now) {
  return !health.pending_since || now - *health.pending_since < kLongestWait;
}

std::vector<IpAddress> ServiceHealth::ListenAddresses(const netproxy::TableOptions& table) {
  std::vector<IpAddress> addresses;
  const std::vector<Cidr>& ranges = table.settings->node_port_ranges;
  for (const bool v6 : {false, true}) {
    IpAddress any;
    any.v6 = v6;
    const Cidr everything{any, 0};
    if (std::find(ranges.begin(), ranges.end(), everything) != ranges.end()) {
      addresses.push_back(any);
      continue;
    }
    for (const IpAddress& address : table.node_addresses) {
      if (address.v6 == v6 && netproxy::IsIn(ranges, address)) addresses.push_back(address);
    }
  }
  return addresses;
}

ServiceHealth::ServiceHealth(ServiceDriver& driver, const Clock& clock,
                             std::vector<IpAddress> addresses, HealthServer::Listeners fixed,
                             std::function<void(const std::string& line)> log,
                             std::unique_ptr<HealthServer> server)
    : driver_(driver),
      clock_(clock),
      addresses_(std::move(addresses)),
      fixed_(std::move(fixed)),
      log_(std::move(log)),
      server_(std::move(server)) {
  driver_.SetHealthCheckListener([this](const HealthChecks& checks) { Update(checks); });
}

ServiceHealth::~ServiceHealth() { driver_.SetHealthCheckListener({}); }

Result<std::unique_ptr<ServiceHealth>> ServiceHealth::Start(
    ServiceDriver& driver, const Clock& clock, std::vector<IpAddress> addresses,
    HealthServer::Listeners fixed, std::function<void(const std::string& line)> log) {
  ASSIGN_OR_RETURN(std::unique_ptr<HealthServer> server, HealthServer::Start());
  return std::unique_ptr<ServiceHealth>(new ServiceHealth(
      driver, clock, std::move(addresses), std::move(fixed), std::move(log), std::move(server)));
}

void ServiceHealth::SetAddresses(std::vector<IpAddress> addresses) {
  {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  driver_.SetHealthCheckListener([this](const HealthChecks& checks) { Update(checks); });
}

void ServiceHealth::Update(const HealthChecks& checks) {
  HealthServer::Listeners listeners = fixed_;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, check] : checks) {
    for (const IpAddress& address : addresses_) {
      const size_t endpoints = check.local_endpoints[address.v6 ? 1 : 0];
      listeners.try_emplace({address, check.port},
                            [this, service = name, endpoints](const std::string&) {
                              return netproxy::ServiceHealthReply(
                                  service, endpoints, IsHealthy(driver_.Health(), clock_.Boot()));
                            });
    }
  }
  server_->Listen(std::move(listeners), [this](const std::string& why) {
    log_(StrCat("service proxy: ", why, ", trying again"));
  });
}

}  // namespace holdfast::agent
