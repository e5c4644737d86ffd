// SPDX-License-Identifier: Apache-2.0
// Exec sessions: further processes in a running container.
// A session belongs to its caller and must not outlive the runtime; ended ones leave no record.
#pragma once

#include <functional>
#include <map>
#include <memory>
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
  // `terminal`: the keeper holds the master of its terminal.
  void Abandon(const std::string& id, bool terminal);
  // True when `id` needs nothing more from here (it is none of ours, or is forgotten now).
  bool Resolve(const std::string& id);

 private:
  Parts& parts_;
  const std::function<void(const std::string&)> ask_;
  std::mutex mutex_;
  std::map<std::string, bool> abandoned_;  // id, terminal
};

Result<std::unique_ptr<ExecSession>> StartExec(Parts& parts, ExecReaper& reaper,
                                               const TableEntry& container, const ExecSpec& spec);

}  // namespace holdfast::runtime
