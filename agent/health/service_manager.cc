// SPDX-License-Identifier: Apache-2.0
#include "agent/health/service_manager.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cstdint>

namespace holdfast::agent {
namespace {

void Notify(const std::string& state) {
  (void)::sd_notify(0, state.c_str());
}  // no manager is fine

}  // namespace

ServiceManager::ServiceManager(boost::asio::io_context& io,
                               std::function<std::string()> unhealthy_because)
    : timer_(io), unhealthy_because_(std::move(unhealthy_because)) {
  uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) > 0) interval_ = std::chrono::microseconds(usec / 2);
}

void ServiceManager::Ready(const std::string& status) {
  Notify("READY=1\nSTATUS=" + status);
  if (interval_.count() > 0) Ping();
}

void ServiceManager::Status(const std::string& status) { Notify("STATUS=" + status); }

void ServiceManager::Stopping() {
  timer_.cancel();
  Notify("STOPPING=1");
}

void ServiceManager::Ping() {
  if (const std::string reason = unhealthy_because_(); reason.empty()) {
    Notify("WATCHDOG=1");
  } else {
    spdlog::error("health check failed, not pinging the watchdog: {}", reason);
  }
  timer_.expires_after(interval_);
  timer_.async_wait([this](const auto& error) {
    if (!error) Ping();
  });
}

}  // namespace holdfast::agent
