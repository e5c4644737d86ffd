// SPDX-License-Identifier: Apache-2.0
// Exec sessions: further processes in a running container.
// A session belongs to its caller and must not outlive the runtime; ended ones leave no record.
//
// Each has a cgroup of its own below the container's, "exec-<id>", so that a session that is given
// up takes everything along that its command started, however it daemonized. What a command that
// ended by itself leaves running goes on, as in a shell; its cgroup then goes with the container.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/containers/parts.h"
#include "runtime/containers/watcher.h"

namespace holdfast::runtime {

// Ids of execs whose session is over while their process may still live: once it has ended, its
// records are forgotten. Thread-safe.
class ExecReaper {
 public:
  ExecReaper(Parts& parts, std::function<void(const std::string&)> ask)
      : parts_(parts), ask_(std::move(ask)) {}
  // `terminal`: the keeper holds the master of its terminal. `container`: whose cgroup the exec's
  // lies in; null when it is not known.
  void Abandon(const std::string& id, bool terminal, std::shared_ptr<const Cgroup> container);
  // True when `id` needs nothing more from here (it is none of ours, or is forgotten now).
  bool Resolve(const std::string& id);
  // The cgroup of an exec whose launch failed: what is in it is killed, and it goes.
  void Undo(const std::string& id, std::shared_ptr<const Cgroup> container);

 private:
  struct Abandoned {
    bool terminal = false;
    std::shared_ptr<const Cgroup> container;
    bool doomed = false;  // nothing of it may stay: all in it has been killed
  };

  Parts& parts_;
  const std::function<void(const std::string&)> ask_;
  std::mutex mutex_;                            // what follows
  std::map<std::string, Abandoned> abandoned_;  // by id
};

// Execs by their cgroups in the containers of `parts.table`: id -> the container's cgroup.
Result<std::map<std::string, std::shared_ptr<const Cgroup>>> FindExecCgroups(Parts& parts);
// SIGKILL to everything that exec `id` started. What is gone is no error.
Result<void> KillExec(Parts& parts, const Cgroup& container, const std::string& id);
// The cgroup of an exec that has no record any more, unless a process is left in it.
void RemoveFormerExec(const Cgroup& container, const std::string& id);

Result<std::unique_ptr<ExecSession>> StartExec(Parts& parts, ExecReaper& reaper,
                                               const TableEntry& container, const ExecSpec& spec);

}  // namespace holdfast::runtime
