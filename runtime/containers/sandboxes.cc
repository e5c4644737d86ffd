// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/sandboxes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "runtime/containers/sandbox_recovery.h"
#include "runtime/gather/selinux.h"
#include "runtime/plan/selinux.h"

namespace holdfast::runtime {
namespace {

// Descriptors of this many pods stay open here, so that the starts right after EnsureSandbox need
// not ask the holder; it bounds what we hold to some 130 descriptors.
constexpr size_t kCachedPods = 32;
constexpr auto kRecently = std::chrono::seconds(60);

constexpr model::QosClass kClasses[] = {model::QosClass::kGuaranteed, model::QosClass::kBurstable,
                                        model::QosClass::kBestEffort};
constexpr size_t kMaxInitBytes = 1 << 20;

// What a pod's containers reach as /proc/1/exe must be no file of the node, and they must not reach
// it at all: a program that its own user may not read is not dumpable from its first instruction
// on, not only from the one where the init says so itself.
Result<UniqueFd> CopyOfInit(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string program, sys::ReadFileAt(AT_FDCWD, path, kMaxInitBytes));
  ASSIGN_OR_RETURN(UniqueFd copy, sys::SealedMemfd("holdfast-init", program));
  if (::fchmod(copy.get(), 0111) != 0) return Error::FromErrno(errno, "fchmod holdfast-init");
  return copy;
}

}  // namespace

Result<void> Sandboxes::Adopt() {
  ASSIGN_OR_RETURN(std::vector<SandboxRecord> records, parts_.state.Sandboxes());
  for (const SandboxRecord& record : records) {
    RETURN_IF_ERROR(
        parts_.cgroups->LimitPodPids(record.spec.uid, record.spec.qos, record.spec.resources));
  }
  {
    const std::lock_guard lock(mutex_);
    for (SandboxRecord& record : records) {
      PodUid uid = record.spec.uid;
      if (!record.selinux_level.empty()) selinux_levels_[uid] = std::move(record.selinux_level);
      infos_.insert_or_assign(std::move(uid), Info{std::move(record.spec)});
    }
  }
  RETURN_IF_ERROR(List());
  return RefreshClasses();
}

Result<void> Sandboxes::Ensure(const model::SandboxSpec& spec) {
  if (!IsSafeName(spec.uid.value)) {
    return InvalidArgument(StrCat("pod uid \"", spec.uid.value, "\" cannot name a directory"));
  }
  if (!spec.host_users && !parts_.facts.user_namespace) {
    return Unsupported(
        "hostUsers: false: no user namespace can be made here (see "
        "/proc/sys/user/max_user_namespaces)");
  }
  // 1. the record, so that whatever follows is found after a crash
  const auto known = Find(spec.uid);
  const std::string former_level = SelinuxLevel(spec.uid);
  ASSIGN_OR_RETURN(const std::string level, EnsureSelinuxLevel(spec));
  if (!known || known->spec != spec || level != former_level) {
    RETURN_IF_ERROR(parts_.state.Put(SandboxRecord{spec, parts_.clock.Wall(), level}));
  }
  {
    const std::lock_guard lock(mutex_);
    Info& info = infos_[spec.uid];
    info.spec = spec;
    info.ensured_at = parts_.clock.Boot();
  }
  // 2. cgroup and namespaces: a pod that is new to us is not looked up first, since making what is
  //    there gives what is there
  if (known) {
    auto there = FindKept(*known);
    if (there) {
      RETURN_IF_ERROR(MakeCgroup(spec));
      NoteHeld(spec.uid);
      return {};
    }
    if (there.error().code() != Code::kNotFound) return std::move(there.error());
  }
  ASSIGN_OR_RETURN(std::vector<keeper::KeptFd> made, MakeCgroupAndNamespaces(spec));
  HOLDFAST_PAUSE_POINT("containers.namespaces_made");
  Remember(spec.uid, std::move(made));
  NoteHeld(spec.uid);
  return {};
}

// The kernel first: of a crash in between the record knows nothing, and who asked asks again.
Result<void> Sandboxes::Resize(const PodUid& uid, const model::ResourceSpec& pod,
                               const std::vector<ResizedContainer>& containers) {
  auto known = Find(uid);
  if (!known) return NotFound(StrCat("pod ", uid.value, " has no sandbox"));
  model::SandboxSpec spec = std::move(known->spec);
  RETURN_IF_ERROR(parts_.cgroups->Resize(uid, spec.qos, pod, containers));
  HOLDFAST_PAUSE_POINT("containers.resized");
  if (spec.resources == pod) return {};
  spec.resources = pod;
  RETURN_IF_ERROR(parts_.state.Put(SandboxRecord{spec, parts_.clock.Wall(), SelinuxLevel(uid)}));
  {
    const std::lock_guard lock(mutex_);
    infos_[uid].spec = std::move(spec);
  }
  return RefreshClasses();
}

void Sandboxes::NoteHeld(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  Info& info = infos_[uid];
  info.held = true;
  info.made_at = ++changes_;
}

Result<void> Sandboxes::EnsureCgroup(const PodUid& uid) {
  ASSIGN_OR_RETURN(const model::SandboxSpec spec, Spec(uid));
  return MakeCgroup(spec);
}

Result<void> Sandboxes::MakeCgroup(const model::SandboxSpec& spec) {
  RETURN_IF_ERROR(parts_.cgroups->EnsurePod(spec.uid, spec.qos, spec.resources));
  return RefreshClasses();
}

Result<std::vector<keeper::KeptFd>> Sandboxes::MakeCgroupAndNamespaces(
    const model::SandboxSpec& spec) {
  PodDescriptors pod;
  pod.selinux_level = SelinuxLevel(spec.uid);
  if (!spec.host_users) {
    ASSIGN_OR_RETURN(pod.user_map, parts_.ids.Ensure(spec.uid));
  }
  std::vector<UniqueFd> owned;
  UniqueFd init;
  Cgroup init_cgroup;
  if (spec.share_process_namespace) {  // its init is born into a cgroup of the pod
    RETURN_IF_ERROR(MakeCgroup(spec));
    ASSIGN_OR_RETURN(init, CopyOfInit(parts_.options.init_binary));
    ASSIGN_OR_RETURN(init_cgroup, parts_.cgroups->MakeContainer(
                                      spec.uid, spec.qos, ContainerId(kInitCgroup), {}, false));
    RETURN_IF_ERROR(
        AddCgroup(parts_.cgroups->backend().layout(), init_cgroup, init_cgroup, pod, owned));
  }
  ASSIGN_OR_RETURN(const PreparedPlan prepared,
                   PrepareSandbox(spec, parts_.facts, pod, init.get()));
  const auto& plan = std::get<model::SandboxPlan>(prepared.plan);
  if (!plan.network && !plan.ipc && !plan.uts && plan.shm_size_bytes == 0 &&
      plan.init_binary == model::kNoFd) {  // all of it is the host's
    RETURN_IF_ERROR(MakeCgroup(spec));
    return std::vector<keeper::KeptFd>();
  }
  ASSIGN_OR_RETURN(const UniqueFd sealed, SealPlan(prepared.plan));
  const std::optional<SandboxPool::Member> member = pool_.Take(plan);
  keeper::PendingSandbox asked = parts_.keeper.BeginSandbox(spec.uid, sealed.get(), prepared.fds,
                                                            member ? member->id() : std::string());
  auto cgroup = spec.share_process_namespace ? Result<void>() : MakeCgroup(spec);
  auto made = asked.Await();
  RETURN_IF_ERROR(std::move(cgroup));
  if (!made) return made.error().ToError();
  return std::move(*made);
}

Result<void> Sandboxes::FindKept(const Info& known) {
  const PodUid& uid = known.spec.uid;
  if (known.held) {
    RETURN_IF_ERROR(Fds(uid));
  } else {
    RETURN_IF_ERROR(Restore(known.spec));
  }
  const auto found = Find(uid);
  if (!found || !found->IsDying()) return {};
  RETURN_IF_ERROR(DropNamespaces(uid));
  return NotFound(StrCat("pod ", uid.value, ": the init of its processes has ended"));
}

Result<void> Sandboxes::DropNamespaces(const PodUid& uid) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(cache_, [&](const auto& entry) { return entry.first == uid; });
  }
  RETURN_IF_ERROR(parts_.keeper.DropSandbox(uid));
  const std::lock_guard lock(mutex_);
  if (const auto known = infos_.find(uid); known != infos_.end()) {
    known->second.held = false;
    known->second.init.reset();
  }
  return {};
}

void Sandboxes::FindInit(const PodUid& uid) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = infos_.find(uid);
    if (known == infos_.end() || !known->second.LacksInit()) return;
  }
  (void)Fds(uid);  // a keeper that does not answer is asked again at the next look
}

Result<void> Sandboxes::Restore(const model::SandboxSpec& spec) {
  auto kept = parts_.keeper.GetSandbox(spec.uid);
  if (kept) {
    Remember(spec.uid, std::move(*kept));
    return {};
  }
  if (kept.error().code() != Code::kNotFound) return std::move(kept.error());
  auto found = Cached(spec.uid);
  if (!found) {
    auto recovered = RecoverSandbox(parts_, spec);
    if (recovered.empty()) return std::move(kept.error());
    found = Remember(spec.uid, std::move(recovered));
  }
  std::vector<std::pair<std::string, int>> fds;
  for (const auto& [name, fd] : *found) fds.emplace_back(name, fd.get());
  return parts_.keeper.PutSandbox(spec.uid, fds);
}

std::shared_ptr<const Sandboxes::Descriptors> Sandboxes::Cached(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(cache_, uid, [](const auto& entry) { return entry.first; });
  if (it == cache_.end()) return nullptr;
  cache_.splice(cache_.begin(), cache_, it);
  return it->second;
}

Result<std::shared_ptr<const Sandboxes::Descriptors>> Sandboxes::Fds(const PodUid& uid) {
  if (auto cached = Cached(uid)) return cached;
  ASSIGN_OR_RETURN(std::vector<keeper::KeptFd> fds, parts_.keeper.GetSandbox(uid));
  return Remember(uid, std::move(fds));
}

std::shared_ptr<const Sandboxes::Descriptors> Sandboxes::Remember(const PodUid& uid,
                                                                  std::vector<keeper::KeptFd> fds) {
  auto descriptors = std::make_shared<Descriptors>();
  for (keeper::KeptFd& kept : fds) (*descriptors)[kept.key] = std::move(kept.fd);
  std::shared_ptr<const PidFd> init;
  if (const auto it = descriptors->find("init"); it != descriptors->end()) {
    init = std::make_shared<const PidFd>(::fcntl(it->second.get(), F_DUPFD_CLOEXEC, 0));
  }
  const std::lock_guard lock(mutex_);
  if (const auto known = infos_.find(uid); init && *init && known != infos_.end()) {
    known->second.init = std::move(init);
  }
  std::erase_if(cache_, [&](const auto& entry) { return entry.first == uid; });
  cache_.emplace_front(uid, descriptors);
  if (cache_.size() > kCachedPods) cache_.pop_back();
  return descriptors;
}

Result<void> Sandboxes::Remove(const PodUid& uid) {
  const auto known = Find(uid);
  // The namespaces go first: their teardown takes the kernel longest, and it goes on behind us.
  RETURN_IF_ERROR(DropNamespaces(uid));
  HOLDFAST_PAUSE_POINT("containers.namespaces_dropped");
  for (const model::QosClass qos : kClasses) {
    if (!known || known->spec.qos == qos) RETURN_IF_ERROR(parts_.cgroups->RemovePod(uid, qos));
  }
  HOLDFAST_PAUSE_POINT("containers.pod_cgroup_removed");
  // No process has its ids any more: the cgroup could go.
  RETURN_IF_ERROR(parts_.ids.Free(uid));
  HOLDFAST_PAUSE_POINT("containers.ids_freed");
  RETURN_IF_ERROR(parts_.state.RemoveSandbox(uid));
  {
    const std::lock_guard lock(mutex_);
    infos_.erase(uid);
    selinux_levels_.erase(uid);
  }
  return RefreshClasses();
}

bool Sandboxes::Info::IsDying() const { return init && sys::IsEnding(init->get()); }

ObservedSandbox Sandboxes::Info::Shown() const {
  const bool dying = IsDying();
  const bool needs_namespaces =
      !spec.host_network || !spec.host_ipc || !spec.host_users || spec.share_process_namespace;
  return {spec.uid,
          spec.pod_namespace,
          spec.pod_name,
          !spec.host_network,
          (!needs_namespaces || held) && !dying,
          spec.owner,
          dying};
}

Result<std::vector<ObservedSandbox>> Sandboxes::List() {
  uint64_t asked_at = 0;
  {
    const std::lock_guard lock(mutex_);
    asked_at = changes_;
  }
  ASSIGN_OR_RETURN(const std::vector<PodUid> held, parts_.keeper.ListSandboxes());
  const std::set<PodUid> with_namespaces(held.begin(), held.end());
  std::vector<ObservedSandbox> observed;
  const std::lock_guard lock(mutex_);
  for (auto& [uid, info] : infos_) {
    // What was made while the keeper was being asked is not in its answer.
    if (info.made_at <= asked_at) info.held = with_namespaces.contains(uid);
    observed.push_back(info.Shown());
  }
  return observed;
}

std::optional<ObservedSandbox> Sandboxes::Observe(const PodUid& uid) {
  if (ask_again_.exchange(false) && !List()) ask_again_ = true;
  FindInit(uid);
  const std::lock_guard lock(mutex_);
  const auto it = infos_.find(uid);
  if (it == infos_.end()) return std::nullopt;
  return it->second.Shown();
}

Result<model::SandboxSpec> Sandboxes::Spec(const PodUid& uid) const {
  auto info = Find(uid);
  if (!info) return NotFound(StrCat("pod ", uid.value, " has no sandbox"));
  return std::move(info->spec);
}

std::string Sandboxes::SelinuxLevel(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto it = selinux_levels_.find(uid);
  return it == selinux_levels_.end() ? std::string() : it->second;
}

// A level whose record could not be written stays the pod's.
Result<std::string> Sandboxes::EnsureSelinuxLevel(const model::SandboxSpec& spec) {
  const auto node = ReadSelinuxContexts();
  const std::lock_guard lock(mutex_);
  const auto it = selinux_levels_.find(spec.uid);
  if (it != selinux_levels_.end()) return it->second;
  if (!node) return std::string();
  std::set<std::string> taken;
  for (const auto& [uid, level] : selinux_levels_) taken.insert(level);
  std::random_device random;
  ASSIGN_OR_RETURN(std::string level, ChooseSelinuxLevel(*node, spec.selinux, std::ref(random),
                                                         [&](const std::string& candidate) {
                                                           return taken.contains(candidate);
                                                         }));
  if (!level.empty()) selinux_levels_[spec.uid] = level;
  return level;
}

std::optional<Sandboxes::Info> Sandboxes::Find(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto it = infos_.find(uid);
  if (it == infos_.end()) return std::nullopt;
  return it->second;
}

bool Sandboxes::EnsuredRecently(const PodUid& uid) const {
  const auto info = Find(uid);
  return info && info->ensured_at && parts_.clock.Boot() - *info->ensured_at < kRecently;
}

std::vector<PodUid> Sandboxes::Known() const {
  const std::lock_guard lock(mutex_);
  std::vector<PodUid> uids;
  for (const auto& [uid, info] : infos_) uids.push_back(uid);
  return uids;
}

// Sums over the pods (feature-map 2.4.8, 2.4.10).
Result<void> Sandboxes::RefreshClasses() {
  const std::lock_guard lock(mutex_);
  ClassRequests sums;
  for (const auto& [uid, info] : infos_) {
    const model::ResourceSpec& pod = info.spec.resources;
    if (info.spec.qos == model::QosClass::kBurstable) {
      sums.burstable_cpu_milli += pod.cpu_milli_request;
      sums.burstable_memory_low += pod.memory_low_bytes;
    } else {
      sums.guaranteed_memory_min += pod.memory_min_bytes;
    }
  }
  return parts_.cgroups->top().SetRequests(sums);
}

}  // namespace holdfast::runtime
