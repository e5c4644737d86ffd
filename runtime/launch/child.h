// SPDX-License-Identifier: Apache-2.0
// Child: what the steps of a recipe share. Exists only in the launched child, between clone and
// exec: single thread, own descriptor table, everything O_CLOEXEC; from "descriptors" on nothing is
// open but the streams and the report socket. Nobody owns a descriptor that a step keeps: that step
// closes them all with one call, where each one's own close would be every fifth of the recipe's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/launch_plan.h"
#include "runtime/launch/launch.h"

namespace holdfast::runtime {

// Leaves it open until the step "descriptors" or the child's end. Returns its number.
template <class Descriptor>
int KeepOpen(Descriptor descriptor) {
  return descriptor.Release();
}

class Child {
 public:
  // All borrowed. `fds` is the list that FdIndex refers to; `socket` the child's end of the
  // reports.
  Child(const LaunchContext& host, std::span<const UniqueFd> fds, int socket, char* begun,
        bool is_born_late)
      : born_late(is_born_late), host_(host), fds_(fds), socket_(socket), begun_(begun) {}

  const sys::HostFacts& facts() const { return host_.facts; }
  // The launcher's procfs: never one that a container could have covered.
  int proc() const { return host_.proc.get(); }
  int null() const { return host_.null.get(); }
  int socket() const { return socket_; }
  // -1 for kNoFd. Indexes were checked when the plan was parsed.
  int Fd(model::FdIndex index) const {
    return index == model::kNoFd ? -1 : fds_[static_cast<size_t>(index)].get();
  }
  void Warn(const std::string& text);
  void SetBegun(bool begun);  // memory that outlives the child, where the launcher gave some
  // Every other descriptor was closed; forgets them all. Fd(), proc() and null() are over.
  void KeepOnlySocket(int socket);

  // Descriptors; -1: none.
  // The container's root directory, once it is mounted; in a user namespace a detached mount first.
  int root = -1;
  int sysfs = -1;     // a detached mount, made beforehand for a container in a user namespace
  int terminal = -1;  // slave of the pty, with stdio.tty
  // The mounts of /dev/shm and, with shareProcessNamespace, of the pod's procfs; in a sandbox's
  // child possibly mount namespaces that show them.
  int procfs = -1;
  int shared_memory = -1;
  int init_binary = -1;  // a sandbox's; borrowed
  bool in_working_directory = false;
  bool identity_taken = false;
  model::CapabilityPlan capabilities;  // the program's, as far as the host has them
  uint64_t for_seccomp = 0;            // permitted beside them until the filter is loaded
  std::string command;                 // what execve(2) gets, once it is found
  // FindCommand saw no such file. Before the process is born /proc/self leads nowhere: execve(2)
  // has the last word.
  bool command_missing = false;
  const bool born_late;       // IsBornLate(plan)
  bool may_be_traced = true;  // by others in the pid namespace that it is born into
  bool filter_loaded = false;

 private:
  const LaunchContext& host_;
  std::span<const UniqueFd> fds_;
  int socket_;
  char* begun_;  // shared
};

// The child's whole life after clone: copies the descriptor table, waits for "go", runs the recipe
// of the plan, execs. Never returns.
[[noreturn]] void RunChild(const LaunchContext& host, const model::Plan& plan,
                           std::span<const UniqueFd> fds, int socket, char* begun);

}  // namespace holdfast::runtime
