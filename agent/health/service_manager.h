// SPDX-License-Identifier: Apache-2.0
// ServiceManager: what systemd is told (sd_notify(3)): ready, status, stopping, and the watchdog,
// which is pinged from the table's strand and only while the health check passes. Without systemd
// nothing happens.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string>

namespace holdfast::agent {

class ServiceManager {
 public:
  // `unhealthy_because` runs on the io_context's thread; "" or the reason why not.
  ServiceManager(boost::asio::io_context& io, std::function<std::string()> unhealthy_because);

  void Ready(const std::string& status);
  void Status(const std::string& status);
  void Stopping();

 private:
  void Ping();

  boost::asio::steady_timer timer_;
  std::function<std::string()> unhealthy_because_;
  std::chrono::microseconds interval_{0};
};

}  // namespace holdfast::agent
