// SPDX-License-Identifier: Apache-2.0
// Starts and removals that the death of a former agent cut short: records of containers for which no process is known.
// Each is settled, as soon as the keeper can tell: its launch came to its end after all, or what it left is taken away.
// Thread-safe; the parts outlive it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/containers/parts.h"

namespace holdfast::runtime {

class HalfMade {
 public:
  // Takes over one that runs after all; false: not now. Under the pod's lock.
  using Adopt = std::function<bool(const keeper::StartRecord&, const ContainerRecord&)>;

  HalfMade(Parts& parts, Adopt adopt) : parts_(parts), adopt_(std::move(adopt)) {}

  // Once, before other calls.
  void Take(std::vector<ContainerRecord> records);
  std::vector<ContainerId> List() const;
  // True when it is settled, or none of these.
  bool Resolve(const ContainerId& id);
  // Under the pod's lock: no launch that a former agent asked for is on its way any more to become this container of the
  // same pod, name and attempt. Two of them would write into the same directories.
  Result<void> Await(const model::ContainerSpec& spec);

 private:
  std::optional<ContainerRecord> Find(
      const std::function<bool(const model::ContainerSpec&)>& is_it) const;
  // Under the pod's lock.
  bool Settle(const ContainerRecord& record);

  Parts& parts_;
  const Adopt adopt_;
  mutable std::mutex mutex_;
  std::map<ContainerId, ContainerRecord> records_;
};

}  // namespace holdfast::runtime
