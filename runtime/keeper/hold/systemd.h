// SPDX-License-Identifier: Apache-2.0
// The two protocols that systemd and a service speak, done by hand (the keeper is static):
// sd_notify datagrams with the descriptor store, and LISTEN_FDS at start. Single-threaded. Without
// NOTIFY_SOCKET every call does nothing.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

class Notifier {
 public:
  // Takes NOTIFY_SOCKET and WATCHDOG_USEC out of the environment, so that children do not get them.
  static Notifier FromEnvironment();

  void Ready(const std::string& status) const;
  void Watchdog() const;
  // FDPOLL=0: systemd would otherwise drop a descriptor whose other end hung up, which is just when
  // a log pipe or a pidfd still has something to tell. False: the manager takes no more at the
  // moment; it has to be said again.
  bool StoreFds(const std::string& key, std::span<const int> fds) const;
  bool RemoveFds(const std::string& key) const;

  // Half of systemd's watchdog interval; nullopt when it does not watch.
  std::optional<std::chrono::milliseconds> watchdog_period() const { return watchdog_period_; }

  // Puts the variables back, for this process re-executed.
  void ToEnvironment() const;

 private:
  // False: worth another try.
  bool Send(const std::string& text, std::span<const int> fds) const;
  std::string socket_path_;
  std::optional<std::chrono::milliseconds> watchdog_period_;
};

// What the descriptor store of systemd handed back (LISTEN_FDS, LISTEN_FDNAMES), with CLOEXEC set.
std::vector<std::pair<std::string, UniqueFd>> TakeListenFds();

}  // namespace holdfast::runtime::keeper
