// SPDX-License-Identifier: Apache-2.0
// ServiceHealth: answers at every healthCheckNodePort, on the addresses that node ports are on,
// with what the ServiceDriver knows. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/proxy/health_server.h"
#include "agent/proxy/service_driver.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Healthy while no change waits for longer than twice kube-proxy's sync period.
bool IsHealthy(const ServiceProxyHealth& health, BootTime now);

class ServiceHealth {
 public:
  // Where each port is listened at: the node's addresses within the ranges; a range of everything
  // is one socket at the unspecified address.
  static std::vector<IpAddress> ListenAddresses(const netproxy::TableOptions& table);

  // `driver` and `clock` are borrowed and must outlive this.
  static Result<std::unique_ptr<ServiceHealth>> Start(
      ServiceDriver& driver, const Clock& clock, std::vector<IpAddress> addresses,
      std::function<void(const std::string& line)> log);
  ~ServiceHealth();

 private:
  ServiceHealth(ServiceDriver& driver, const Clock& clock, std::vector<IpAddress> addresses,
                std::function<void(const std::string& line)> log,
                std::unique_ptr<HealthServer> server);
  void Update(const HealthChecks& checks);

  ServiceDriver& driver_;
  const Clock& clock_;
  const std::vector<IpAddress> addresses_;
  const std::function<void(const std::string& line)> log_;
  std::unique_ptr<HealthServer> server_;
};

}  // namespace holdfast::agent
