// SPDX-License-Identifier: Apache-2.0
// ExitEvents: the kernel's word on how processes of others end (proc connector, linux/cn_proc.h;
// in every Debian kernel). It is the only one on kernels before 6.15 for a process whose waiter is
// somebody else. Needs CAP_NET_ADMIN in the first network and pid namespaces. Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

// One thread has ended.
struct ExitEvent {
  pid_t thread = 0;
  pid_t process = 0;
  int status = 0;  // in the form of wait(2)
};

// Of one datagram; nullopt for everything that is no such event.
std::optional<ExitEvent> ParseExitEvent(std::string_view datagram);

// How the whole process ended, from the events of its threads: threads that end before the first
// one only worked for it; after the first one the last word is the process's.
class ProcessEnd {
 public:
  void Add(const ExitEvent& event) {
    if (event.thread == event.process || status_) status_ = event.status;
  }
  const std::optional<int>& status() const { return status_; }

 private:
  std::optional<int> status_;
};

class ExitEvents {
 public:
  // Of these processes only; the kernel drops the others' events. At most kMostProcesses count.
  static Result<ExitEvents> Listen(std::span<const pid_t> processes);

  int fd() const { return socket_.get(); }
  // What waits; empty when nothing does. An overrun only loses events.
  std::vector<ExitEvent> Receive() const;

 private:
  explicit ExitEvents(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace holdfast::runtime::keeper
