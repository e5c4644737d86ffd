// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_table.h"
#include "agent/objects/pod_inputs.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>

#include "agent/pod/decide/spec_containers.h"
#include "agent/probe/prober.h"
#include "agent/report/pod_reporter.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// They wait for others, and one that does not answer holds up its own pods only.
constexpr size_t kMountsAtATime = 64;

namespace asio = boost::asio;

constexpr std::chrono::minutes kTurnLimit{5};
// The kernel takes a namespace's interfaces away in the background.
constexpr std::chrono::seconds kReleaseDelay{1};

}  // namespace

PodTable::PodTable(asio::io_context& io, PodServices& services, PodRegistry& registry,
                   PodTableOptions options)
    : io_(io),
      services_(services),
      registry_(registry),
      options_(options),
      timer_(io),
      door_(std::make_shared<Door>()) {
  door_->table = this;
  last_turn_ = services_.clock.Boot().since_boot.count();
}

PodTable::~PodTable() {
  services_.runtime.SetChangeHint({});
  if (services_.admission != nullptr) services_.admission->SetListener({});
  registry_.SetListener({});
  if (services_.inputs != nullptr) services_.inputs->SetListener({});
  if (services_.prober != nullptr) services_.prober->SetListener({});
  if (pool_) pool_->Stop();  // what runs still posts to it
  const std::lock_guard lock(door_->mutex);
  door_->table = nullptr;
}

Result<void> PodTable::Recover() {
  const int timer = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0) return Error::FromErrno(errno, "timerfd_create");
  timer_.assign(timer);
  std::vector<size_t> bounds(kPodLanes, options_.workers);
  if (options_.sandboxes != 0) {
    bounds[static_cast<size_t>(PodLane::kSandbox)] = options_.sandboxes;
    bounds[static_cast<size_t>(PodLane::kRemoveSandbox)] = options_.sandboxes;
  }
  bounds[static_cast<size_t>(PodLane::kPull)] = options_.pulls;
  bounds[static_cast<size_t>(PodLane::kMounts)] = kMountsAtATime;
  ASSIGN_OR_RETURN(pool_, LanePool::Start(std::move(bounds)));

  ASSIGN_OR_RETURN(PodStateStore::Loaded loaded, services_.state.LoadAll());
  for (const std::string& problem : loaded.problems) services_.log(problem + ", left alone");
  {
    const std::lock_guard lock(mutex_);
    for (StoredPod& stored : loaded.pods) Adopt(std::move(stored));
    RETURN_IF_ERROR(FindUnknown());
    next_resync_ = services_.clock.Boot() + options_.resync;
  }
  services_.runtime.SetChangeHint([this](const PodUid& uid) { Poke(uid); });
  if (services_.inputs != nullptr) {
    services_.inputs->SetListener([this](const PodUid& uid) { Poke(uid); });
  }
  // Whoever frees room may hold the table's lock.
  if (services_.admission != nullptr) {
    services_.admission->SetListener([this, door = door_](const PodUid& uid) {
      asio::post(io_, [door, uid] {
        const std::lock_guard lock(door->mutex);
        if (door->table != nullptr) door->table->Poke(uid);
      });
    });
  }
  if (services_.prober != nullptr) {
    services_.prober->SetListener([door = door_](const PodUid& uid) {
      const std::lock_guard lock(door->mutex);
      if (door->table != nullptr) door->table->Poke(uid);
    });
  }
  registry_.SetListener([this] { TakeNews(); });
  asio::post(io_, [this] {
    {
      const std::lock_guard lock(mutex_);
      begun_ = true;
    }
    TakeNews();
    {
      const std::lock_guard lock(mutex_);
      for (auto& [uid, entry] : entries_) PokeEntry(uid, entry);
      ArmTimer();
    }
    WaitForTimer();
  });
  return {};
}

PodTable::Entry& PodTable::Add(const PodUid& uid, WantedPod wanted, PodMemory memory) {
  Entry& entry = entries_[uid];
  names_.emplace(FullName(*wanted.pod), uid);
  entry.origin = wanted.origin;
  entry.wish = {wanted.pod, wanted.deletion};
  entry.worker =
      std::make_unique<PodWorker>(services_, *pool_, std::move(wanted.pod), std::move(memory),
                                  options_.step_deadline, [door = door_, uid] {
                                    const std::lock_guard lock(door->mutex);
                                    if (door->table != nullptr) door->table->Poke(uid);
                                  });
  return entry;
}

void PodTable::Poke(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(uid);
  if (it != entries_.end()) PokeEntry(uid, it->second);
}

void PodTable::PokeEntry(const PodUid& uid, Entry& entry) {
  if (!begun_) return;
  if (entry.busy) {
    entry.dirty = true;
    return;
  }
  entry.busy = true;
  entry.overdue = false;
  entry.busy_since = services_.clock.Boot();
  Schedule(uid, entry, std::nullopt);
  entry.job =
      pool_->Post(static_cast<LanePool::Lane>(PodLane::kTurn), [this, uid] { RunTurn(uid); });
}

void PodTable::RunTurn(const PodUid& uid) {
  PodWorker* worker = nullptr;
  PodWorker::Wish wish;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(uid);  // a busy one stays
    entry.dirty = false;
    worker = entry.worker.get();
    wish = entry.wish;
  }
  const PodWorker::Outcome outcome = worker->Turn(wish);
  const std::lock_guard lock(mutex_);
  Ended(uid, outcome);
}

void PodTable::Ended(const PodUid& uid, const PodWorker::Outcome& outcome) {
  const auto it = entries_.find(uid);
  Entry& entry = it->second;
  entry.busy = false;
  if (outcome.gone) {
    const auto& meta = entry.wish.pod->metadata();
    services_.view.Remove(meta.namespace_(), meta.name());
    names_.erase(FullName(*entry.wish.pod));
    const bool has_object = entry.origin == PodOrigin::kApi && !entry.wish.object_gone;
    if (services_.reporter != nullptr && !has_object) services_.reporter->Forget(uid);
    entries_.erase(it);
    wanted_grace_.erase(uid);
    if (!release_at_) release_at_ = services_.clock.Boot() + kReleaseDelay;
    BeginWaiting();  // the name is free
    ArmTimer();
    return;
  }
  entry.awaits_image = outcome.awaits_image;
  if (room_awaited_) BeginWaiting();  // its place may be free
  if (entry.dirty) return PokeEntry(uid, entry);
  Schedule(uid, entry, outcome.wake_at);
  if (outcome.wake_at) ArmTimer();
}

void PodTable::Schedule(const PodUid& uid, Entry& entry, std::optional<BootTime> at) {
  if (entry.wake_at) wakes_.erase({*entry.wake_at, uid});
  entry.wake_at = at;
  if (at) wakes_.insert({*at, uid});
}

void PodTable::ArmTimer() {
  BootTime next = next_resync_;
  if (!wakes_.empty()) next = std::min(next, wakes_.begin()->first);
  if (release_at_) next = std::min(next, *release_at_);
  // Zero would disarm it; a moment in the past fires at once.
  const auto ns = std::max<int64_t>(next.since_boot.count(), 1);
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  (void)::timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void PodTable::WaitForTimer() {
  timer_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
    if (error) return;
    uint64_t expirations = 0;
    if (::read(timer_.native_handle(), &expirations, sizeof expirations) > 0) OnTimer();
    WaitForTimer();
  });
}

void PodTable::OnTimer() {
  const BootTime now = services_.clock.Boot();
  last_turn_ = now.since_boot.count();
  const std::lock_guard lock(mutex_);
  while (!wakes_.empty() && wakes_.begin()->first <= now) {
    const PodUid uid = wakes_.begin()->second;
    Entry& entry = entries_.at(uid);
    Schedule(uid, entry, std::nullopt);
    PokeEntry(uid, entry);
  }
  if (release_at_ && now >= *release_at_) EnsureNetwork();
  if (now >= next_resync_) Resync();
  ArmTimer();
}

void PodTable::PostNode(std::function<void()> job) {
  pool_->Post(static_cast<LanePool::Lane>(PodLane::kNode), std::move(job));
}

// The safety net: everything is looked at again, whether or not anything was said about it. What
// Observe() answers from is renewed first, so that the turns find a lost sandbox.
void PodTable::Resync() {
  const BootTime now = services_.clock.Boot();
  next_resync_ = now + options_.resync;
  ReportOverdue(now);
  EnsureNetwork();
  PostNode([this] {
    const auto seen = services_.runtime.ListSandboxes();
    if (!seen) services_.log(StrCat("list sandboxes: ", seen.error().message()));
    TakeNews();
    const std::lock_guard lock(mutex_);
    for (auto& [uid, entry] : entries_) PokeEntry(uid, entry);
  });
}

void PodTable::EnsureNetwork() {
  release_at_.reset();
  PostNode([this] {
    if (auto done = services_.network.Ensure(); !done) {
      services_.log(StrCat("pod network: ", done.error().message(), ", trying again in a minute"));
    }
    for (const std::string& warning : services_.network.TakeWarnings()) services_.log(warning);
  });
}

// A turn waits for nothing slow; where the disk with the records or the logs hangs, it does.
void PodTable::ReportOverdue(BootTime now) {
  for (auto& [uid, entry] : entries_) {
    if (!entry.busy || entry.overdue || now - entry.busy_since < options_.step_deadline) continue;
    entry.overdue = true;
    const std::string text = "a turn takes longer than two minutes; other pods go on";
    services_.log(StrCat("pod ", PodLabel(*entry.wish.pod), ": ", text));
    services_.view.AddEvents(
        *entry.wish.pod,
        {EventNote{true, "FailedSync", "error determining status: " + text, "", false}});
    if (!pool_->GiveBack(entry.job)) services_.log("too many stuck turns; the others wait");
  }
}

// One that has a turn may just have looked in vain.
void PodTable::ImagesChanged() {
  const std::lock_guard lock(mutex_);
  for (auto& [uid, entry] : entries_) {
    if (entry.awaits_image || entry.busy) PokeEntry(uid, entry);
  }
}

std::vector<PodUid> PodTable::Live() const {
  const std::lock_guard lock(mutex_);
  std::vector<PodUid> live;
  for (const auto& [uid, entry] : entries_) live.push_back(uid);
  return live;
}

bool PodTable::IsHealthy() const {
  const auto idle = services_.clock.Boot().since_boot.count() - last_turn_;
  return std::chrono::nanoseconds(idle) <
         std::max<std::chrono::nanoseconds>(kTurnLimit, 3 * options_.resync);
}

}  // namespace holdfast::agent
