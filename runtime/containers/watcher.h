// SPDX-License-Identifier: Apache-2.0
// ExitWatcher: one thread that learns of ended processes, by their pidfds and by the keeper's exit records (inotify). It
// keeps asking `resolve` about a process that has ended until that knows how: the record may be a moment behind the process.
// Thread-safe. Stops and joins on destruction; callbacks run on its thread and may call Watch().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::runtime {

class ExitWatcher {
 public:
  struct Callbacks {
    // The process of this id has ended, or there is a record of its end. True when nothing more is
    // to be done for it; false asks again a little later.
    std::function<bool(const std::string& id)> resolve;
    // Empties the inotify descriptor, gives the ids.
    std::function<std::vector<std::string>(int watch)> read_hints;
  };

  // `exits` is KeeperClient::WatchExits(), or invalid: then ends are learned up to half a second later.
  static Result<std::unique_ptr<ExitWatcher>> Start(UniqueFd exits, Callbacks callbacks);
  ~ExitWatcher();
  ExitWatcher(const ExitWatcher&) = delete;
  ExitWatcher& operator=(const ExitWatcher&) = delete;

  // Asks `resolve` about `id` once `process` has ended. The pidfd is shared with the table.
  Result<void> Watch(const std::string& id, std::shared_ptr<const PidFd> process);
  // Asks `resolve` about `id` soon and until it says true.
  void Ask(const std::string& id);

 private:
  struct Watched {
    std::string id;
    std::shared_ptr<const PidFd> process;
  };
  struct Question {
    std::chrono::steady_clock::time_point next;
    std::chrono::milliseconds pause;
  };

  ExitWatcher(UniqueFd epoll, sys::Wakeup wake, UniqueFd exits, Callbacks callbacks);
  Result<void> Add(int fd, uint64_t token);
  void Run();
  void Handle(uint64_t token);
  void HandleEnded(uint64_t token);
  void AskDue();
  int WaitMillis();

  const UniqueFd epoll_;
  const sys::Wakeup wake_;
  const UniqueFd exits_;
  const Callbacks callbacks_;
  std::mutex mutex_;  // what follows
  bool stop_ = false;
  uint64_t next_token_;
  std::map<uint64_t, Watched> watched_;
  std::map<std::string, Question> questions_;
  std::thread thread_;
};

}  // namespace holdfast::runtime
