// SPDX-License-Identifier: Apache-2.0
// Plugins: the programs of a network's chain, found in directories and executed, one verb at a time.
// Thread-safe: no state besides what it was made with.
// Source: CNI specification 1.1, sections 2 and 5.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/cni/json_text.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent::cni {

using Deadline = std::chrono::steady_clock::time_point;

// Whose interface it is about; the verbs that are about none leave all of it empty.
struct PluginTarget {
  std::string container_id;
  std::string netns;  // a path; "" when the namespace is gone
  std::string interface;
  std::string args;  // "K8S_POD_NAME=web;…"
};

class Plugins {
 public:
  // `owner`: of each BoundedProgram.
  Plugins(std::vector<std::string> directories, std::string owner, const sys::Wakeup& stop);

  // Its standard output; `config` is what it reads. Blocks until it ended, or the deadline or `stop` ends it. Errors are
  // in libcni's words: plugin type="bridge" failed (add): what it said itself. kNotFound: it said that it knows nothing of
  // that interface.
  Result<std::string> Run(const std::string& verb, const Json& config, const PluginTarget& target,
                          Deadline deadline) const;
  // The versions that it says it speaks.
  Result<std::vector<std::string>> Versions(const std::string& type, Deadline deadline) const;

 private:
  Result<std::string> Find(const std::string& type) const;
  Result<std::string> Execute(const std::string& verb, const std::string& type,
                              const std::string& input, const PluginTarget& target,
                              Deadline deadline) const;

  const std::vector<std::string> directories_;
  const std::string owner_;
  const sys::Wakeup& stop_;
};

}  // namespace holdfast::agent::cni
