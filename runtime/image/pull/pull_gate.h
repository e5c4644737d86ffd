// SPDX-License-Identifier: Apache-2.0
// PullGate: which pulls go on at the same time. Who wants what somebody else is pulling joins that
// pull; of the rest no more than a number run, first come, first served. A pull goes on as long as
// anybody wants it. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::runtime {

class PullGate {
 public:
  // Pulls with equal keys are one.
  struct Key {
    std::string name;
    std::vector<RegistryLogin> logins;
    auto operator<=>(const Key&) const = default;
  };
  using Stop = std::function<bool()>;
  using Tell = std::function<void(const PullProgress&)>;
  // Does the pull; asks `stop` now and then, and tells how it goes.
  using Work = std::function<Result<PulledImage>(const Stop& stop, const Tell& tell)>;

  // `most`: pulls at a time; 0: no limit.
  explicit PullGate(size_t most) : most_(most) {}

  // `told` is called on the caller's thread. Returns when the pull has ended, or soon after
  // `cancelled` was set (kUnavailable).
  Result<PulledImage> Run(const Key& key, const std::atomic<bool>& cancelled, const Tell& told,
                          const Work& work);

 private:
  struct Flight {
    std::vector<const std::atomic<bool>*> wanted_by;
    PullProgress progress;
    uint64_t version = 0;  // of `progress`
    std::optional<Result<PulledImage>> result;
  };
  Result<PulledImage> Lead(const Key& key, const std::shared_ptr<Flight>& flight,
                           const std::atomic<bool>& cancelled, const Tell& told, const Work& work);
  Result<PulledImage> Join(const std::shared_ptr<Flight>& flight,
                           const std::atomic<bool>& cancelled, const Tell& told);
  Result<void> TakePlace(const Stop& stop);
  void GivePlace();
  // Then nobody can join it any more.
  bool IsUnwanted(const Key& key, const std::shared_ptr<Flight>& flight);
  void Forget(const Key& key, const std::shared_ptr<Flight>& flight);  // mutex_ held

  const size_t most_;
  std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Flight>> flights_;
  size_t running_ = 0;
  uint64_t next_ticket_ = 0;
  std::map<uint64_t, bool> queue_;  // tickets that wait, in their order
};

}  // namespace holdfast::runtime
