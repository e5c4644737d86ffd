// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/pull_gate.h"

#include <algorithm>
#include <chrono>

namespace holdfast::runtime {
namespace {

// How often somebody who waits looks whether he still is to. (A flag has no wake-up of its own.)
constexpr std::chrono::milliseconds kFlagLook{100};

Error Cancelled() { return Unavailable("the pull was cancelled"); }

}  // namespace

bool PullGate::IsUnwanted(const Key& key, const std::shared_ptr<Flight>& flight) {
  const std::lock_guard lock(mutex_);
  const bool unwanted = std::ranges::all_of(
      flight->wanted_by, [](const auto* cancelled) { return cancelled->load(); });
  if (unwanted) Forget(key, flight);
  return unwanted;
}

void PullGate::Forget(const Key& key, const std::shared_ptr<Flight>& flight) {
  const auto known = flights_.find(key);
  if (known != flights_.end() && known->second == flight) flights_.erase(known);
}

Result<PulledImage> PullGate::Run(const Key& key, const std::atomic<bool>& cancelled,
                                  const Tell& told, const Work& work) {
  std::shared_ptr<Flight> flight;
  bool leads = false;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Flight>& known = flights_[key];
    leads = known == nullptr;
    if (leads) known = std::make_shared<Flight>();
    flight = known;
    flight->wanted_by.push_back(&cancelled);
  }
  return leads ? Lead(key, flight, cancelled, told, work) : Join(flight, cancelled, told);
}

Result<PulledImage> PullGate::Lead(const Key& key, const std::shared_ptr<Flight>& flight,
                                   const std::atomic<bool>& cancelled, const Tell& told,
                                   const Work& work) {
  const Stop stop = [this, key, flight] { return IsUnwanted(key, flight); };
  const Tell tell = [&](const PullProgress& progress) {
    {
      const std::lock_guard lock(mutex_);
      flight->progress = progress;
      ++flight->version;
    }
    changed_.notify_all();
    if (told && !cancelled) told(progress);
  };
  PullProgress waiting;
  waiting.waiting = true;
  tell(waiting);
  Result<PulledImage> result = Cancelled();
  if (auto place = TakePlace(stop); place) {
    result = work(stop, tell);
    GivePlace();
  }
  {
    const std::lock_guard lock(mutex_);
    flight->result.emplace(result);
    Forget(key, flight);
  }
  changed_.notify_all();
  return result;
}

Result<PulledImage> PullGate::Join(const std::shared_ptr<Flight>& flight,
                                   const std::atomic<bool>& cancelled, const Tell& told) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (!flight->result && !cancelled) {
    changed_.wait_for(lock, kFlagLook);
    if (!told || flight->version == seen) continue;
    seen = flight->version;
    const PullProgress progress = flight->progress;
    lock.unlock();
    told(progress);
    lock.lock();
  }
  std::erase(flight->wanted_by, &cancelled);
  if (flight->result) return *flight->result;
  return Cancelled();
}

Result<void> PullGate::TakePlace(const Stop& stop) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  queue_.emplace(ticket, true);
  const auto may = [&] {
    return queue_.begin()->first == ticket && (most_ == 0 || running_ < most_);
  };
  while (!may()) {
    changed_.wait_for(lock, kFlagLook);
    lock.unlock();
    const bool stopped = stop();
    lock.lock();
    if (!stopped) continue;
    queue_.erase(ticket);
    return Cancelled();
  }
  queue_.erase(ticket);
  ++running_;
  changed_.notify_all();
  return {};
}

void PullGate::GivePlace() {
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  changed_.notify_all();
}

}  // namespace holdfast::runtime
