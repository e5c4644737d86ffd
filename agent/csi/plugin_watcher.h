// SPDX-License-Identifier: Apache-2.0
// PluginWatcher: looks at the registration directory (<root_dir>/plugins_registry) for sockets of storage plugins, asks
// each who it is, and keeps CsiDrivers true: a socket that is new, or was made anew, is registered, and what it registered
// goes with it. One thread, which a plugin that does not answer holds up for seconds. Source: feature-map.md 1.17.6.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/csi/csi_drivers.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct PluginWatcherOptions {
  std::string root_dir;
  std::chrono::milliseconds period{1000};
  std::function<void(const std::string& line)> log;  // the same trouble of a socket once
};

class PluginWatcher {
 public:
  // Makes the directory. `drivers` is borrowed.
  static Result<std::unique_ptr<PluginWatcher>> Start(PluginWatcherOptions options,
                                                      CsiDrivers& drivers);
  ~PluginWatcher();
  PluginWatcher(const PluginWatcher&) = delete;
  PluginWatcher& operator=(const PluginWatcher&) = delete;

 private:
  // A socket by what it is, not by its name alone: who starts anew makes another one.
  struct Seen {
    ino_t inode = 0;
    timespec made{};
    std::string driver;  // "" until it is registered
    std::shared_ptr<const CsiClient> client = {};
    std::string told;  // the last trouble
    unsigned tries = 0;
    std::chrono::steady_clock::time_point again{};
  };

  PluginWatcher(PluginWatcherOptions options, CsiDrivers& drivers)
      : options_(std::move(options)),
        directory_(options_.root_dir + "/plugins_registry"),
        drivers_(drivers) {}
  void Run();
  void Look();
  void LookAt(const std::string& socket, Seen& seen);
  Result<void> Register(const std::string& socket, Seen& seen);
  void Forget(const Seen& seen);

  const PluginWatcherOptions options_;
  const std::string directory_;
  CsiDrivers& drivers_;
  std::map<std::string, Seen> sockets_;  // by path; the thread's
  std::mutex mutex_;
  std::condition_variable end_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace holdfast::agent
