// SPDX-License-Identifier: Apache-2.0
// PodTable: who is wanted, who has to go, and what of nobody is taken away.
#include <algorithm>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_status.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/pod_table.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/source/pod_change.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

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

// What the runtime has of pods without a record that can be read. Another owner's is not ours to
// judge.
Result<void> PodTable::FindUnknown() {
  ASSIGN_OR_RETURN(const auto containers, services_.runtime.ListContainers());
  ASSIGN_OR_RETURN(const auto sandboxes, services_.runtime.ListSandboxes());
  for (const ObservedContainer& c : containers) unknown_.insert(c.pod_uid);
  for (const ObservedSandbox& s : sandboxes) unknown_.insert(s.uid);
  for (const ObservedSandbox& s : sandboxes) {
    if (!s.owner.empty()) unknown_.erase(s.uid);
  }
  std::erase_if(unknown_, [this](const PodUid& uid) { return entries_.contains(uid); });
  return {};
}

void PodTable::TakeNews() {
  const std::lock_guard lock(mutex_);
  if (!begun_) return;
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

// A pod from a manifest before one of the API server: of two with one name it is the one that runs.
void PodTable::Wait(WantedPod wanted) {
  const auto after = wanted.origin == PodOrigin::kApi
                         ? waiting_.end()
                         : std::ranges::find(waiting_, PodOrigin::kApi, &WantedPod::origin);
  waiting_.insert(after, std::move(wanted));
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
    PokeEntry(uid, entry);
  }
  if (!wanted.deletion) return;
  if (entry.wish.gives_way) Wait({entry.wish.pod, entry.origin, wanted.deletion});
  EndPod(uid, entry, wanted.deletion);
}

// Its own origin does not have it any more, and has said all it has.
void PodTable::NoteGone(const PodUid& uid, Entry& entry) {
  if (!complete_.contains(entry.origin) || registry_.Has(entry.origin, uid)) return;
  const bool ends_already = entry.wish.deletion_grace.has_value();
  entry.wish.object_gone = true;
  if (ends_already) return PokeEntry(uid, entry);
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
  PokeEntry(uid, entry);
}

// What was taken over and its own origin does not want any more goes now, and once all have said
// what they want, what is nobody's.
void PodTable::NoteComplete() {
  for (auto& [uid, entry] : entries_) NoteGone(uid, entry);
  if (complete_.size() < 3) return;
  for (const PodUid& uid : std::set(unknown_)) RemoveStranger(uid);
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
    PokeEntry(uid, entry);
    return true;
  });
}

// A name is free only when all of the former pod of that name is gone; a UID, when nothing runs
// under it that no record explains.
bool PodTable::MayBegin(const WantedPod& wanted) {
  const PodUid uid = UidOf(wanted);
  if (unknown_.contains(uid)) {
    services_.view.AddEvents(
        *wanted.pod, {EventNote{true, "FailedSync",
                                "error determining status: the record of what ran cannot be read; "
                                "it is removed, and the pod begins anew",
                                "", false}});
    RemoveStranger(uid);
  }
  return !entries_.contains(uid) && !names_.contains(FullName(*wanted.pod)) &&
         !strangers_.contains(uid);
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

void PodTable::RemoveStranger(const PodUid& uid) {
  unknown_.erase(uid);
  strangers_.insert(uid);
  PostNode([this, uid] {
    TakeAway(uid);
    const std::lock_guard lock(mutex_);
    strangers_.erase(uid);
    BeginWaiting();
  });
}

void PodTable::TakeAway(const PodUid& uid) {
  services_.log(
      StrCat("pod ", uid.value, ": no record of it can be read, removing its containers"));
  const auto report = [&](const Result<void>& result) {
    if (!result) services_.log(StrCat(result.error().message(), ", ignoring"));
  };
  for (const ObservedContainer& c : services_.runtime.Observe(uid).containers) {
    if (!c.exit) report(services_.runtime.Kill(c.id));
  }
  report(services_.runtime.RemoveSandbox(uid));
  report(services_.network.Teardown(uid));
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
  PokeEntry(uid, entry);
  return entry.wish.pod;
}

void PodTable::Evict(const PodUid& uid, const Eviction& eviction) {
  const std::lock_guard lock(mutex_);
  if (const auto it = entries_.find(uid); it != entries_.end()) {
    EvictEntry(uid, it->second, eviction);
  }
}

// Once: what it is to end for does not change.
void PodTable::EvictEntry(const PodUid& uid, Entry& entry, const Eviction& eviction) {
  if (entry.wish.eviction) return;
  if (services_.metrics != nullptr) services_.metrics->NoteEviction(eviction);
  entry.wish.eviction = eviction;
  PokeEntry(uid, entry);
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

}  // namespace holdfast::agent
