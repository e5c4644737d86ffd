// SPDX-License-Identifier: Apache-2.0
// LineWatch: tells when a connection has gone without anybody noticing: nothing moved for too long, or
// the peer left while nobody reads (back-pressure). On the connection's executor.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace holdfast::agent::streams {

class LineWatch : public std::enable_shared_from_this<LineWatch> {
 public:
  static std::shared_ptr<LineWatch> Start(const boost::asio::any_io_executor& executor,
                                          std::chrono::milliseconds idle_limit,
                                          std::function<void()> gone);
  void Moved() { moved_ = std::chrono::steady_clock::now(); }
  // From here on nobody reads `socket`, until Reading().
  void NotReading(int socket);
  void Reading() { socket_ = -1; }
  void Stop();

 private:
  LineWatch(const boost::asio::any_io_executor& executor, std::chrono::milliseconds idle_limit,
            std::function<void()> gone);
  void WaitForIdle();
  void LookSoon();
  void Gone();

  const std::chrono::milliseconds idle_limit_;
  std::function<void()> gone_;  // null once told or stopped
  boost::asio::steady_timer idle_;
  boost::asio::steady_timer look_;
  bool looking_ = false;
  int socket_ = -1;
  std::chrono::steady_clock::time_point moved_;
};

}  // namespace holdfast::agent::streams
