// SPDX-License-Identifier: Apache-2.0
// KeeperWatch: one thread that waits for the end of the keeper's holder and has it revived, at once and then every second.
// It does nothing else: whoever calls a keeper that is away waits for an answer, and must not be who brings it back.
// Thread-safe. Stops and joins on destruction; `revive` runs on its thread.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::runtime {

class KeeperWatch {
 public:
  // Makes the keeper answer again; a pidfd of its holder to wait for, invalid when it does not (yet).
  using Revive = std::function<PidFd()>;

  // `holder` may be invalid: then it is revived.
  static Result<std::unique_ptr<KeeperWatch>> Start(PidFd holder, Revive revive);
  ~KeeperWatch();
  KeeperWatch(const KeeperWatch&) = delete;
  KeeperWatch& operator=(const KeeperWatch&) = delete;

 private:
  KeeperWatch(sys::Wakeup stop, PidFd holder, Revive revive);
  void Run();
  bool WaitForStop(int milliseconds);

  const sys::Wakeup stop_;
  PidFd holder_;  // the thread's own
  const Revive revive_;
  std::thread thread_;
};

}  // namespace holdfast::runtime
