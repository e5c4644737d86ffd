// SPDX-License-Identifier: Apache-2.0
// NetworkWatch: which network pods are attached to now, by what the configuration directory says, and whether its plugins
// can do it. Followed by inotify on the directories of configuration and of plugins, with a look every minute besides;
// plugins of 1.1.0 are asked for their STATUS every ten seconds. One thread of its own, so a plugin that hangs there
// holds up no pod. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/cni/network_config.h"
#include "agent/cni/plugin.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cni {

struct NetworkWatchOptions {
  std::string config_directory;
  std::vector<std::string> plugin_directories;
  std::chrono::milliseconds verb_limit{
      10'000};  // for all plugins' VERSION, and for all their STATUS
  std::chrono::milliseconds status_period{10'000};
  std::chrono::milliseconds retry_period{5'000};  // while there is nothing to use
  std::chrono::milliseconds look_period{60'000};
  std::function<void(const std::string& line)> log;
  // After each look, on the watch's thread. `changed`: the network is another one, or the first one.
  std::function<void(const NetworkConfig& network, bool changed)> looked = {};
};

class NetworkWatch {
 public:
  // `plugins` and `stop` are borrowed. Looks once before it returns.
  static Result<std::unique_ptr<NetworkWatch>> Start(NetworkWatchOptions options,
                                                     const Plugins& plugins,
                                                     const sys::Wakeup& stop);
  // After `stop` was set.
  ~NetworkWatch();
  NetworkWatch(const NetworkWatch&) = delete;
  NetworkWatch& operator=(const NetworkWatch&) = delete;

  // Null while there is a problem, unless that is one that the plugins have (STATUS).
  std::shared_ptr<const NetworkConfig> Current() const;
  // "Network plugin returns error: cni plugin not initialized: …"; "" when pods can be attached.
  std::string Problem() const;
  // `listener` is called with each new problem, "" too, from the watch's thread, and at once. {} takes it back.
  void SetListener(std::function<void(const std::string& problem)> listener);

 private:
  NetworkWatch(NetworkWatchOptions options, const Plugins& plugins, const sys::Wakeup& stop)
      : options_(std::move(options)), plugins_(plugins), stop_(stop) {}
  void Run();
  bool Wait();
  void FollowDirectories();
  bool Look(bool thoroughly);
  Result<NetworkConfig> Load(bool thoroughly);
  void Take(std::shared_ptr<const NetworkConfig> network, std::string problem);

  const NetworkWatchOptions options_;
  const Plugins& plugins_;
  const sys::Wakeup& stop_;
  UniqueFd inotify_;
  // Of the thread.
  NetworkConfig written_;  // as the file has it
  std::chrono::steady_clock::time_point looked_at_;
  bool touched_ = false;

  mutable std::mutex mutex_;  // what follows
  std::shared_ptr<const NetworkConfig> current_;
  std::string problem_;
  std::mutex telling_;  // one call of the listener at a time; taken before mutex_
  std::function<void(const std::string& problem)> listener_;

  std::thread thread_;
};

}  // namespace holdfast::agent::cni
