// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_table.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cctype>
#include <cerrno>

#include "agent/pod/decide/spec_containers.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::minutes kTurnLimit{5};
// The kernel takes a namespace's interfaces away in the background.
constexpr std::chrono::seconds kReleaseDelay{1};

std::string FullName(const corev1::Pod& pod) {
  return StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
}

// A UID becomes a directory name and part of cgroup names.
bool IsUsableUid(const std::string& uid) {
  constexpr size_t kLimit = 128;
  if (uid.empty() || uid.size() > kLimit || uid[0] == '.') return false;
  return std::all_of(uid.begin(), uid.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

}  // namespace

PodTable::PodTable(asio::io_context& io, PodServices& services, PodSource& source,
                   PodTableOptions options)
    : io_(io),
      services_(services),
      source_(source),
      options_(options),
      timer_(io),
      pool_(std::make_unique<WorkerPool>(
          WorkerPoolOptions{.name = "pod workers", .threads = options.workers})) {
  last_turn_ = services_.clock.Boot().since_boot.count();
}

PodTable::~PodTable() {
  services_.runtime.SetChangeHint({});
  source_.SetChangeCallback({});
  pool_.reset();
}

Result<void> PodTable::Recover() {
  const int timer = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0) return Error::FromErrno(errno, "timerfd_create");
  timer_.assign(timer);
  RETURN_IF_ERROR(pool_->Start());

  ASSIGN_OR_RETURN(PodStateStore::Loaded loaded, services_.state.LoadAll());
  for (const std::string& problem : loaded.problems) services_.log(problem + ", left alone");
  for (StoredPod& stored : loaded.pods) Adopt(std::move(stored));
  UpdateLive();

  services_.runtime.SetChangeHint(
      [this](const PodUid& uid) { asio::post(io_, [this, uid] { Poke(uid); }); });
  source_.SetChangeCallback([this] { asio::post(io_, [this] { Reconcile(); }); });
  next_resync_ = services_.clock.Boot() + options_.resync;
  asio::post(io_, [this] {
    Reconcile();
    for (auto& [uid, entry] : entries_) Poke(uid);
    ArmTimer();
    WaitForTimer();
  });
  return {};
}

void PodTable::Adopt(StoredPod stored) {
  const PodUid uid(stored.pod->metadata().uid());
  Entry& entry = entries_[uid];
  names_[FullName(*stored.pod)] = uid;
  if (stored.memory.ending && stored.memory.ending->why == Ending::Why::kDeleted) {
    entry.deletion_grace = stored.memory.ending->grace;
  }
  entry.worker =
      std::make_unique<PodWorker>(services_, std::move(stored.pod), std::move(stored.memory));
  if (!entry.deletion_grace) entry.worker->EnsureAdmission();
  entry.worker->Show(entry.deletion_grace);
}

void PodTable::Reconcile() {
  const auto snapshot = source_.Snapshot();
  if (!snapshot->complete) return;
  std::set<PodUid> wanted;
  for (const DesiredPod& desired : snapshot->pods) {
    wanted.insert(PodUid(desired.pod->metadata().uid()));
  }
  for (auto& [uid, entry] : entries_) {
    if (wanted.contains(uid) || entry.deletion_grace) continue;
    const auto wish = wanted_grace_.find(uid);
    entry.deletion_grace =
        wish != wanted_grace_.end() ? wish->second : GracePeriod(entry.worker->pod());
    entry.worker->GiveUpPlace();
    Poke(uid);
  }
  // A name is free only when all of the former pod of that name is gone.
  for (const DesiredPod& desired : snapshot->pods) {
    const PodUid uid(desired.pod->metadata().uid());
    if (entries_.contains(uid) || names_.contains(FullName(*desired.pod))) continue;
    if (!IsUsableUid(uid.value)) {
      services_.log(StrCat(desired.origin, ": metadata.uid is not usable as a name, not run"));
      continue;
    }
    names_[FullName(*desired.pod)] = uid;
    auto& worker = entries_[uid].worker;
    worker = std::make_unique<PodWorker>(services_, desired.pod, PodMemory{});
    worker->EnsureAdmission();
    worker->ShowNew();  // its first turn may be a while away
    Poke(uid);
  }
  UpdateLive();
  if (!strangers_removed_) RemoveStrangers();
}

// What the runtime knows of pods that have no record: the record was lost, and nobody wants them.
void PodTable::RemoveStrangers() {
  const auto containers = services_.runtime.ListContainers();
  const auto sandboxes = services_.runtime.ListSandboxes();
  if (!containers || !sandboxes) {
    const Error& error = containers ? sandboxes.error() : containers.error();
    return services_.log(StrCat("look for unknown pods: ", error.message()));
  }
  strangers_removed_ = true;
  std::set<PodUid> found;
  for (const ObservedContainer& c : *containers) found.insert(c.pod_uid);
  for (const ObservedSandbox& s : *sandboxes) found.insert(s.uid);
  for (const PodUid& uid : found) {
    if (entries_.contains(uid)) continue;
    pool_->Post([this, uid] {
      services_.log(StrCat("pod ", uid.value, ": unknown, removing its containers"));
      const auto report = [&](const Result<void>& result) {
        if (!result) services_.log(StrCat(result.error().message(), ", ignoring"));
      };
      for (const ObservedContainer& c : services_.runtime.Observe(uid).containers) {
        if (!c.exit) report(services_.runtime.Kill(c.id));
        report(services_.runtime.Remove(c.id));
      }
      report(services_.runtime.RemoveSandbox(uid));
      report(services_.network.Teardown(uid));
    });
  }
}

void PodTable::Poke(const PodUid& uid) {
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  if (it->second.busy) {
    it->second.dirty = true;
    return;
  }
  Begin(uid, it->second);
}

void PodTable::Begin(const PodUid& uid, Entry& entry) {
  entry.busy = true;
  entry.dirty = false;
  entry.overdue = false;
  entry.busy_since = services_.clock.Boot();
  Schedule(uid, entry, std::nullopt);
  PodWorker* worker = entry.worker.get();
  entry.job = pool_->Post(
      [this, uid, worker, grace = entry.deletion_grace, others_wait = pool_->BusyCheck()] {
        const PodWorker::Outcome outcome = worker->Sync(grace, others_wait);
        asio::post(io_, [this, uid, outcome] { Ended(uid, outcome); });
      });
}

void PodTable::Ended(const PodUid& uid, PodWorker::Outcome outcome) {
  const auto it = entries_.find(uid);
  Entry& entry = it->second;
  entry.busy = false;
  if (outcome.gone) {
    const auto pod = entry.worker->shared_pod();
    Schedule(uid, entry, std::nullopt);
    names_.erase(FullName(*pod));
    entries_.erase(it);
    wanted_grace_.erase(uid);
    services_.view.Remove(pod->metadata().namespace_(), pod->metadata().name());
    if (!release_at_) release_at_ = services_.clock.Boot() + kReleaseDelay;
    Reconcile();  // the name is free, and the same manifest may be back
    ArmTimer();
    return;
  }
  if (entry.dirty || outcome.yielded) {
    Begin(uid, entry);
    return;
  }
  Schedule(uid, entry, outcome.wake_at);
  ArmTimer();
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
  while (!wakes_.empty() && wakes_.begin()->first <= now) {
    const PodUid uid = wakes_.begin()->second;
    Schedule(uid, entries_[uid], std::nullopt);
    Poke(uid);
  }
  if (release_at_ && now >= *release_at_) EnsureNetwork();
  if (now >= next_resync_) Resync();
  ArmTimer();
}

// The safety net: everything is looked at again, whether or not anything was said about it.
void PodTable::Resync() {
  const BootTime now = services_.clock.Boot();
  next_resync_ = now + options_.resync;
  ReportOverdue(now);
  EnsureNetwork();
  Reconcile();
  LookAtSandboxes();
}

void PodTable::EnsureNetwork() {
  release_at_.reset();
  pool_->Post([this] {
    if (auto done = services_.network.Ensure(); !done) {
      services_.log(StrCat("pod network: ", done.error().message(), ", trying again in a minute"));
    }
    for (const std::string& warning : services_.network.TakeWarnings()) services_.log(warning);
  });
}

void PodTable::ReportOverdue(BootTime now) {
  for (auto& [uid, entry] : entries_) {
    if (!entry.busy || entry.overdue || now - entry.busy_since < options_.step_deadline) continue;
    entry.overdue = true;
    const std::string text = "a step takes longer than two minutes; other pods go on";
    services_.log(StrCat("pod ", PodLabel(entry.worker->pod()), ": ", text));
    services_.view.AddEvents(
        entry.worker->pod(),
        {EventNote{true, "FailedSync", "error determining status: " + text, "", false}});
    if (!pool_->WriteOff(entry.job)) services_.log("too many stuck steps; the others wait");
  }
}

// What Observe() answers from is renewed first, so that the turns find a lost sandbox.
void PodTable::LookAtSandboxes() {
  pool_->Post([this] {
    const auto seen = services_.runtime.ListSandboxes();
    if (!seen) services_.log(StrCat("list sandboxes: ", seen.error().message()));
    PokeAll();
  });
}

void PodTable::PokeAll() {
  asio::post(io_, [this] {
    for (auto& [uid, entry] : entries_) Poke(uid);
  });
}

void PodTable::SetDeletionGrace(const PodUid& uid, std::chrono::seconds grace) {
  asio::post(io_, [this, uid, grace] {
    wanted_grace_[uid] = grace;
    const auto it = entries_.find(uid);
    if (it == entries_.end() || !it->second.deletion_grace) return;
    it->second.deletion_grace = std::min(*it->second.deletion_grace, grace);
    Poke(uid);
  });
}

void PodTable::UpdateLive() {
  const std::lock_guard lock(live_mutex_);
  live_.clear();
  for (const auto& [uid, entry] : entries_) live_.push_back(uid);
}

std::vector<PodUid> PodTable::Live() const {
  const std::lock_guard lock(live_mutex_);
  return live_;
}

bool PodTable::IsHealthy() const {
  const auto idle = services_.clock.Boot().since_boot.count() - last_turn_;
  return std::chrono::nanoseconds(idle) <
         std::max<std::chrono::nanoseconds>(kTurnLimit, 3 * options_.resync);
}

}  // namespace holdfast::agent
