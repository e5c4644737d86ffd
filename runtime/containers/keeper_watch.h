// SPDX-License-Identifier: Apache-2.0
// KeeperWatch: one thread that waits for the end of the keeper's holder and brings it back: it is started at once and then
// every second, and looked for at growing intervals, of 10 ms after each start, until it is there.
// It does nothing else: whoever calls a keeper that is away waits for an answer, and must not be who brings it back.
// Thread-safe. Stops and joins on destruction; both functions run on its thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::runtime {

class KeeperWatch {
 public:
  struct Holder {
    std::function<PidFd()> find;  // to wait for; invalid while it does not answer (yet)
    std::function<void()> start;
  };

  // `current` may be invalid: then it is found or started.
  static Result<std::unique_ptr<KeeperWatch>> Start(PidFd current, Holder holder);
  ~KeeperWatch();
  KeeperWatch(const KeeperWatch&) = delete;
  KeeperWatch& operator=(const KeeperWatch&) = delete;

 private:
  KeeperWatch(sys::Wakeup stop, PidFd current, Holder holder);
  void Run();
  void BringBack();
  bool WaitForStop(std::chrono::milliseconds limit);

  const sys::Wakeup stop_;
  PidFd current_;  // the thread's own
  const Holder holder_;
  std::thread thread_;
};

}  // namespace holdfast::runtime
