// SPDX-License-Identifier: Apache-2.0
// ServiceHealth: answers at every healthCheckNodePort, on the addresses that node ports are on,
// with what the ServiceDriver knows; and what the proxy itself is asked at fixed addresses, which
// come before a health check of the same port. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
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
      HealthServer::Listeners fixed, std::function<void(const std::string& line)> log);
  ~ServiceHealth();

  // Health checks are answered there and nowhere else from now on.
  void SetAddresses(std::vector<IpAddress> addresses);

 private:
  ServiceHealth(ServiceDriver& driver, const Clock& clock, std::vector<IpAddress> addresses,
                HealthServer::Listeners fixed, std::function<void(const std::string& line)> log,
                std::unique_ptr<HealthServer> server);
  void Update(const HealthChecks& checks);

  ServiceDriver& driver_;
  const Clock& clock_;
  std::mutex mutex_;  // guards addresses_
  std::vector<IpAddress> addresses_;
  const HealthServer::Listeners fixed_;
  const std::function<void(const std::string& line)> log_;
  std::unique_ptr<HealthServer> server_;
};

}  // namespace holdfast::agent
