// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_table.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_status.h"
#include "agent/objects/pod_inputs.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/probe/prober.h"
#include "agent/report/pod_reporter.h"
#include "agent/source/pod_change.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// They wait for others, and one that does not answer holds up its own pods only.
constexpr size_t kMountsAtATime = 64;
constexpr std::chrono::minutes kTurnLimit{5};

std::vector<size_t> LaneBounds(const PodTableOptions& options) {
  std::vector<size_t> bounds(kPodLanes, options.workers);
  if (options.sandboxes != 0) {
    bounds[static_cast<size_t>(PodLane::kSandbox)] = options.sandboxes;
    bounds[static_cast<size_t>(PodLane::kRemoveSandbox)] = options.sandboxes;
  }
  bounds[static_cast<size_t>(PodLane::kPull)] = options.pulls;
  bounds[static_cast<size_t>(PodLane::kMounts)] = kMountsAtATime;
  return bounds;
}

PodUid UidOf(const WantedPod& wanted) { return PodUid(wanted.pod->metadata().uid()); }

// Of a pod that begins. Where the server says that its containers ran already, the records of that
// are lost: their restarts are counted on.
PodMemory NewMemory(const WantedPod& wanted) {
  PodMemory memory;
  memory.origin = wanted.origin;
  const corev1::PodStatus& status = wanted.pod->status();
  if (wanted.origin != PodOrigin::kApi || kube::IsTerminalPhase(status.phase())) return memory;
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses()}) {
    for (const corev1::ContainerStatus& container : *list) {
      if (container.containerid().empty() || container.restartcount() < 0) continue;
      memory.containers[container.name()].attempts =
          static_cast<uint32_t>(container.restartcount()) + 1;
    }
  }
  // An ephemeral container runs once, and it has.
  for (const corev1::ContainerStatus& container : status.ephemeralcontainerstatuses()) {
    if (container.containerid().empty()) continue;
    Finished lost;
    lost.exit_code = 137;
    lost.reason = "ContainerStatusUnknown";
    lost.message = "the container ran before; nobody knows how it ended";
    memory.containers[container.name()].attempts = 1;
    memory.containers[container.name()].last = std::move(lost);
  }
  return memory;
}

// A manifest says nothing of what was put into its pod later, which stays.
std::shared_ptr<const corev1::Pod> WithAdded(const corev1::Pod& running,
                                             std::shared_ptr<const corev1::Pod> wanted) {
  if (running.spec().ephemeralcontainers().empty()) return wanted;
  auto both = std::make_shared<corev1::Pod>(*wanted);
  *both->mutable_spec()->mutable_ephemeralcontainers() = running.spec().ephemeralcontainers();
  return both;
}

}  // namespace

PodTable::PodTable(boost::asio::io_context& io, PodServices& services, PodRegistry& registry,
                   PodTableOptions options)
    : io_(io),
      services_(services),
      registry_(registry),
      options_(options),
      door_(std::make_shared<Door>()),
      unknown_(services),
      network_(services, turns_),
      turns_(io, services.clock, [this](const PodUid& uid) { return RunTurn(uid); }) {
  door_->table = this;
}

PodTable::~PodTable() {
  services_.runtime.SetChangeHint({});
  if (services_.admission != nullptr) services_.admission->SetListener({});
  registry_.SetListener({});
  for (PodInputs* const inputs : {services_.inputs, services_.file_inputs}) {
    if (inputs != nullptr) inputs->SetListener({});
  }
  if (services_.prober != nullptr) services_.prober->SetListener({});
  turns_.Stop();  // what runs still pokes pods
  const std::lock_guard lock(door_->mutex);
  door_->table = nullptr;
}

Result<void> PodTable::Recover() {
  RETURN_IF_ERROR(turns_.Start(LaneBounds(options_)));
  ASSIGN_OR_RETURN(PodStateStore::Loaded loaded, services_.state.LoadAll());
  for (const std::string& problem : loaded.problems) services_.log(problem);
  {
    const std::lock_guard lock(mutex_);
    for (StoredPod& stored : loaded.pods) Adopt(std::move(stored));
    RETURN_IF_ERROR(unknown_.Find([this](const PodUid& uid) { return entries_.contains(uid); }));
  }
  Listen();
  boost::asio::post(io_, [this] { Begin(); });
  return {};
}

void PodTable::Listen() {
  services_.runtime.SetChangeHint([this](const PodUid& uid) { Poke(uid); });
  for (PodInputs* const inputs : {services_.inputs, services_.file_inputs}) {
    if (inputs != nullptr) inputs->SetListener([this](const PodUid& uid) { Poke(uid); });
  }
  const auto poke = [door = door_](const PodUid& uid) {
    const std::lock_guard lock(door->mutex);
    if (door->table != nullptr) door->table->Poke(uid);
  };
  // Whoever frees room may hold the table's lock.
  if (services_.admission != nullptr) {
    services_.admission->SetListener(
        [this, poke](const PodUid& uid) { boost::asio::post(io_, [poke, uid] { poke(uid); }); });
  }
  if (services_.prober != nullptr) services_.prober->SetListener(poke);
  registry_.SetListener([this] { TakeNews(); });
}

void PodTable::Begin() {
  turns_.Begin();
  TakeNews();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, entry] : entries_) turns_.Poke(uid);
  }
  turns_.RunAt(services_.clock.Boot() + options_.resync, [this] { Resync(); });
}

PodTable::Entry& PodTable::Add(const PodUid& uid, WantedPod wanted, PodMemory memory) {
  Entry& entry = entries_[uid];
  names_.emplace(FullName(*wanted.pod), uid);
  entry.origin = wanted.origin;
  entry.wish = {wanted.pod, wanted.deletion};
  entry.worker =
      std::make_unique<PodWorker>(services_, turns_.pool(), std::move(wanted.pod),
                                  std::move(memory), options_.step_deadline, [door = door_, uid] {
                                    const std::lock_guard lock(door->mutex);
                                    if (door->table != nullptr) door->table->Poke(uid);
                                  });
  return entry;
}

void PodTable::Adopt(StoredPod stored) {
  const PodUid uid(stored.pod->metadata().uid());
  WantedPod wanted{std::move(stored.pod), stored.memory.origin, std::nullopt};
  if (stored.memory.ending && stored.memory.ending->why == Ending::Why::kDeleted) {
    wanted.deletion = stored.memory.ending->grace;
  }
  Entry& entry = Add(uid, std::move(wanted), std::move(stored.memory));
  if (!entry.wish.deletion_grace) entry.worker->EnsureAdmission();
  entry.worker->Show(entry.wish);
}

void PodTable::Poke(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  if (entries_.contains(uid)) turns_.Poke(uid);
}

PodTurns::End PodTable::RunTurn(const PodUid& uid) {
  PodWorker* worker = nullptr;
  PodWorker::Wish wish;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(uid);  // it stays while it has a turn
    worker = entry.worker.get();
    wish = entry.wish;
  }
  const PodWorker::Outcome outcome = worker->Turn(wish);
  const std::lock_guard lock(mutex_);
  if (outcome.gone) {
    NoteEnded(uid);
    return {.gone = true};
  }
  entries_.at(uid).awaits_image = outcome.awaits_image;
  if (room_awaited_) BeginWaiting();  // its place may be free
  return {.wake_at = outcome.wake_at};
}

void PodTable::NoteEnded(const PodUid& uid) {
  const auto it = entries_.find(uid);
  const Entry& entry = it->second;
  const auto& meta = entry.wish.pod->metadata();
  services_.view.Remove(meta.namespace_(), meta.name());
  names_.erase(FullName(*entry.wish.pod));
  const bool has_object = entry.origin == PodOrigin::kApi && !entry.wish.object_gone;
  if (services_.reporter != nullptr && !has_object) services_.reporter->Forget(uid);
  entries_.erase(it);
  turns_.Forget(uid);
  wanted_grace_.erase(uid);
  network_.NotePodGone();
  BeginWaiting();  // the name is free
}

// The safety net: everything is looked at again, whether or not anything was said about it. What
// Observe() answers from is renewed first, so that the turns find a lost sandbox.
void PodTable::Resync() {
  turns_.RunAt(services_.clock.Boot() + options_.resync, [this] { Resync(); });
  {
    const std::lock_guard lock(mutex_);
    ReportOverdue();
  }
  network_.Ensure();
  turns_.PostNode([this] {
    const auto seen = services_.runtime.ListSandboxes();
    if (!seen) services_.log(StrCat("list sandboxes: ", seen.error().message()));
    TakeNews();
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, entry] : entries_) turns_.Poke(uid);
  });
}

// A turn waits for nothing slow; where the disk with the records or the logs hangs, it does.
void PodTable::ReportOverdue() {
  for (const PodTurns::Overdue& overdue : turns_.TakeOverdue(options_.step_deadline)) {
    const auto it = entries_.find(overdue.uid);
    if (it == entries_.end()) continue;
    const corev1::Pod& pod = *it->second.wish.pod;
    const std::string text = "a turn takes longer than two minutes; other pods go on";
    services_.log(StrCat("pod ", PodLabel(pod), ": ", text));
    services_.view.AddEvents(
        pod, {EventNote{true, "FailedSync", "error determining status: " + text, "", false}});
    if (overdue.holds_place) services_.log("too many stuck turns; the others wait");
  }
}

void PodTable::TakeNews() {
  if (!turns_.HasBegun()) return;
  const std::lock_guard lock(mutex_);
  std::set<PodOrigin> complete;  // before the news are taken, so that they have all of these
  for (const PodOrigin origin : {PodOrigin::kFile, PodOrigin::kHttp, PodOrigin::kApi}) {
    if (registry_.IsComplete(origin)) complete.insert(origin);
  }
  const bool more_complete = complete != complete_;
  complete_ = std::move(complete);
  for (PodNews& news : registry_.Take()) {
    const bool waited =
        std::erase_if(waiting_, [&](const WantedPod& w) { return UidOf(w) == news.uid; }) != 0;
    if (waited) GiveUpRoom(news.uid);
    if (news.wanted) {
      Want(std::move(*news.wanted));
    } else if (const auto it = entries_.find(news.uid); it != entries_.end()) {
      NoteGone(news.uid, it->second);
    }
  }
  BeginWaiting();
  if (more_complete) NoteComplete();
}

void PodTable::Want(WantedPod wanted) {
  const PodUid uid = UidOf(wanted);
  if (const auto it = entries_.find(uid); it != entries_.end()) {
    return WantAgain(uid, it->second, std::move(wanted));
  }
  const auto holder = names_.find(FullName(*wanted.pod));
  if (holder != names_.end()) NoteClash(wanted, holder->second);
  Wait(std::move(wanted));
}

// A new version of a pod that is there, or another pod of its UID, which waits for it to go. A pod
// of the API server keeps its UID for life: whatever changed is taken over.
void PodTable::WantAgain(const PodUid& uid, Entry& entry, WantedPod wanted) {
  if (entry.origin != wanted.origin) {
    Wait(std::move(wanted));
    return NoteGone(uid, entry);
  }
  if (entry.wish.deletion_grace && !wanted.deletion) {
    entry.wish.object_gone = !entry.wish.gives_way;  // a deletion is never taken back
    return Wait(std::move(wanted));
  }
  if (wanted.origin != PodOrigin::kApi) wanted.pod = WithAdded(*entry.wish.pod, wanted.pod);
  const PodChangeKind kind = ComparePods(*entry.wish.pod, *wanted.pod);
  if (kind == PodChangeKind::kReplaced && wanted.origin != PodOrigin::kApi) {
    Wait(std::move(wanted));
    return EndPod(uid, entry, std::nullopt);
  }
  if (kind != PodChangeKind::kNone) {
    entry.wish.pod = std::move(wanted.pod);
    turns_.Poke(uid);
  }
  if (!wanted.deletion) return;
  if (entry.wish.gives_way) Wait({entry.wish.pod, entry.origin, wanted.deletion});
  EndPod(uid, entry, wanted.deletion);
}

// Two origins want pods of one name: that of the API server gives way.
void PodTable::NoteClash(const WantedPod& wanted, const PodUid& holder) {
  Entry& entry = entries_.at(holder);
  if ((entry.origin == PodOrigin::kApi) == (wanted.origin == PodOrigin::kApi)) return;
  const bool yields = entry.origin == PodOrigin::kApi;
  const std::string text = StrCat("error syncing pod: a static pod has the same name; this one ",
                                  yields ? "ends" : "waits until that is gone");
  services_.view.AddEvents(yields ? *entry.wish.pod : *wanted.pod,
                           {EventNote{true, "FailedSync", text, "", false}});
  if (!yields) return;
  entry.wish.gives_way = true;
  Wait({entry.wish.pod, entry.origin, std::nullopt});
  EndPod(holder, entry, std::nullopt);
}

// A pod from a manifest before one of the API server: of two with one name it is the one that runs.
void PodTable::Wait(WantedPod wanted) {
  const auto after = wanted.origin == PodOrigin::kApi
                         ? waiting_.end()
                         : std::ranges::find(waiting_, PodOrigin::kApi, &WantedPod::origin);
  waiting_.insert(after, std::move(wanted));
}

// In the order in which they came.
void PodTable::BeginWaiting() {
  room_awaited_ = false;
  std::erase_if(waiting_, [this](const WantedPod& wanted) {
    const PodUid uid = UidOf(wanted);
    if (EndUnbegun(wanted)) {
      GiveUpRoom(uid);
      return true;
    }
    if (!MayBegin(wanted)) return false;
    if (AwaitsRoom(wanted)) {
      room_awaited_ = true;
      return false;
    }
    WantedPod begins = wanted;
    // It may have waited for long, and have an end on the server by now.
    const auto newest = registry_.Find(uid);
    if (newest != nullptr && registry_.Has(wanted.origin, uid)) begins.pod = newest;
    PodMemory memory = NewMemory(begins);
    Entry& entry = Add(uid, std::move(begins), std::move(memory));
    entry.worker->EnsureAdmission();
    entry.worker->ShowNew();  // its first turn may be a while away
    turns_.Poke(uid);
    return true;
  });
}

// What is deleted while a static pod has its name does not have to begin for that; nothing of it is here.
bool PodTable::EndUnbegun(const WantedPod& wanted) {
  const auto holder = names_.find(FullName(*wanted.pod));
  const bool ends = wanted.origin == PodOrigin::kApi && wanted.deletion &&
                    services_.reporter != nullptr && !entries_.contains(UidOf(wanted)) &&
                    holder != names_.end() && entries_.at(holder->second).origin != PodOrigin::kApi;
  if (!ends) return false;
  auto status = std::make_shared<corev1::PodStatus>(wanted.pod->status());
  if (!kube::IsTerminalPhase(status->phase())) status->set_phase("Failed");
  services_.reporter->Report({wanted.pod, std::move(status), true});
  return true;
}

// A name is free only when all of the former pod of that name is gone; a UID, when nothing runs
// under it that no record explains.
bool PodTable::MayBegin(const WantedPod& wanted) {
  const PodUid uid = UidOf(wanted);
  if (unknown_.found().contains(uid)) {
    services_.view.AddEvents(
        *wanted.pod, {EventNote{true, "FailedSync",
                                "error determining status: the record of what ran cannot be read; "
                                "it is removed, and the pod begins anew",
                                "", false}});
    RemoveUnknown(uid);
  }
  return !entries_.contains(uid) && !names_.contains(FullName(*wanted.pod)) &&
         !unknown_.IsBeingRemoved(uid);
}

// A critical pod begins when those have ended that give way to it.
bool PodTable::AwaitsRoom(const WantedPod& wanted) {
  const bool is_over = wanted.deletion || EndedElsewhere(wanted.origin, *wanted.pod);
  if (services_.admission == nullptr || is_over) return false;
  const NodeAdmission::Room room = services_.admission->MakeRoom(*wanted.pod);
  for (const PodUid& uid : room.victims) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) continue;
    EvictEntry(uid, it->second,
               {.why = "Preempted in order to admit critical pod",
                .signal = room.resource,
                .grace = GracePeriod(*it->second.wish.pod),
                .disruption = true,
                .reason = kPreempting});
  }
  return room.awaited;
}

// It waits no more and has not begun.
void PodTable::GiveUpRoom(const PodUid& uid) {
  if (services_.admission != nullptr && !entries_.contains(uid)) {
    services_.admission->Release(uid.value);
  }
}

// Its own origin does not have it any more, and has said all it has.
void PodTable::NoteGone(const PodUid& uid, Entry& entry) {
  if (!complete_.contains(entry.origin) || registry_.Has(entry.origin, uid)) return;
  const bool ends_already = entry.wish.deletion_grace.has_value();
  entry.wish.object_gone = true;
  if (ends_already) return turns_.Poke(uid);
  EndPod(uid, entry, std::nullopt);
}

// A grace period that is given can only shorten one that runs.
void PodTable::EndPod(const PodUid& uid, Entry& entry, std::optional<std::chrono::seconds> grace) {
  std::optional<std::chrono::seconds>& chosen = entry.wish.deletion_grace;
  if (chosen && (!grace || *grace >= *chosen)) return;
  if (!grace) {
    const auto wish = wanted_grace_.find(uid);
    grace = wish != wanted_grace_.end() ? wish->second : GracePeriod(*entry.wish.pod);
  }
  chosen = grace;
  entry.worker->GiveUpPlace(kPodsRemoved);
  turns_.Poke(uid);
}

// Once: what it is to end for does not change.
void PodTable::EvictEntry(const PodUid& uid, Entry& entry, const Eviction& eviction) {
  if (entry.wish.eviction) return;
  if (services_.metrics != nullptr) services_.metrics->NoteEviction(eviction);
  entry.wish.eviction = eviction;
  turns_.Poke(uid);
}

// What was taken over and its own origin does not want any more goes now, and once all have said
// what they want, what is nobody's.
void PodTable::NoteComplete() {
  for (auto& [uid, entry] : entries_) NoteGone(uid, entry);
  if (complete_.size() < 3) return;
  for (const PodUid& uid : std::set(unknown_.found())) RemoveUnknown(uid);
}

void PodTable::RemoveUnknown(const PodUid& uid) {
  unknown_.BeginRemoval(uid);
  turns_.PostNode([this, uid] {
    unknown_.Remove(uid);
    const std::lock_guard lock(mutex_);
    unknown_.EndRemoval(uid);
    BeginWaiting();
  });
}

Result<std::shared_ptr<const corev1::Pod>> PodTable::AddEphemeralContainer(
    const PodUid& uid, const corev1::EphemeralContainer& container) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return NotFound(StrCat("pod ", uid.value, " not found"));
  Entry& entry = it->second;
  const std::string label = PodLabel(*entry.wish.pod);
  if (entry.origin == PodOrigin::kApi) {
    return Conflict(StrCat("pod ", label, " belongs to an API server: use kubectl debug"));
  }
  if (entry.wish.deletion_grace) return Conflict(StrCat("pod ", label, " is ending"));
  const std::string& name = container.ephemeralcontainercommon().name();
  const auto names = kube::ContainerNames(*entry.wish.pod);
  if (std::ranges::find(names, name) != names.end()) {
    return Error(Code::kAlreadyExists,
                 StrCat("pod ", label, " has a container \"", name, "\" already"));
  }
  auto pod = std::make_shared<corev1::Pod>(*entry.wish.pod);
  *pod->mutable_spec()->add_ephemeralcontainers() = container;
  entry.wish.pod = pod;
  turns_.Poke(uid);
  return entry.wish.pod;
}

void PodTable::Evict(const PodUid& uid, const Eviction& eviction) {
  const std::lock_guard lock(mutex_);
  if (const auto it = entries_.find(uid); it != entries_.end()) {
    EvictEntry(uid, it->second, eviction);
  }
}

void PodTable::SetDeletionGrace(const PodUid& uid, std::optional<std::chrono::seconds> grace) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  if (it->second.wish.deletion_grace) {
    if (grace) EndPod(uid, it->second, grace);
  } else if (grace) {
    wanted_grace_[uid] = *grace;
  } else {
    wanted_grace_.erase(uid);
  }
}

// One that has a turn may just have looked in vain.
void PodTable::ImagesChanged() {
  const std::lock_guard lock(mutex_);
  for (const auto& [uid, entry] : entries_) {
    if (entry.awaits_image) turns_.Poke(uid);
  }
  turns_.PokeRunning();
}

std::vector<PodUid> PodTable::Live() const {
  const std::lock_guard lock(mutex_);
  std::vector<PodUid> live;
  for (const auto& [uid, entry] : entries_) live.push_back(uid);
  return live;
}

bool PodTable::IsHealthy() const {
  return services_.clock.Boot() - turns_.last_alive() <
         std::max<std::chrono::nanoseconds>(kTurnLimit, 3 * options_.resync);
}

}  // namespace holdfast::agent
