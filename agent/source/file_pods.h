// SPDX-License-Identifier: Apache-2.0
// FilePods: the one listener of a manifest directory. It hands the directory's pods to the registry
// as what came, what changed and what went, and lets the others know. Thread-safe.
#pragma once

#include <functional>
#include <memory>

#include "agent/source/pod_registry.h"
#include "agent/source/pod_source.h"

namespace holdfast::agent {

class FilePods {
 public:
  using Look = std::function<void(const PodSnapshot&)>;

  // Begins with what is there already. At each change with the snapshot it is about, one at a time:
  // `before` the registry hears of its pods, for what these are made from, and `after` that. Neither
  // may block. `source` and `registry` are borrowed.
  FilePods(PodSource& source, PodRegistry& registry, Look before = {}, Look after = {});
  // Nothing of it runs any more when it returns.
  ~FilePods();
  FilePods(const FilePods&) = delete;
  FilePods& operator=(const FilePods&) = delete;

 private:
  class State;
  PodSource& source_;
  const std::shared_ptr<State> state_;  // shared with callbacks that are under way
};

}  // namespace holdfast::agent
