// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/sandbox_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

Result<void> EnterAndName(int uts, const std::string& name) {
  RETURN_IF_ERROR(sys::JoinNamespace(uts, CLONE_NEWUTS, "to a member's uts namespace"));
  if (::sethostname(name.data(), name.size()) == 0) return {};
  return Error::FromErrno(errno, StrCat("sethostname ", name));
}

// On a thread that ends inside the namespace, so that nothing has to find its way back.
Result<void> NameHost(int uts, const std::string& name) {
  if (name.empty()) return {};
  Result<void> named;
  ASSIGN_OR_RETURN(std::thread thread,
                   sys::StartThread("hostname", [&] { named = EnterAndName(uts, name); }));
  thread.join();
  return named;
}

}  // namespace

Result<void> SandboxPool::Start() {
  ASSIGN_OR_RETURN(thread_, sys::StartThread("sandbox-pool", [this] { Run(); }));
  return {};
}

SandboxPool::~SandboxPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& [id, uts] : ready_) {
    if (!parts_.keeper.DropMember(id)) return;  // the next agent does it
  }
}

void SandboxPool::KeepReady(size_t members) {
  {
    const std::lock_guard lock(mutex_);
    state_.wanted = members;
  }
  changed_.notify_all();
}

void SandboxPool::LookAgain() {
  {
    const std::lock_guard lock(mutex_);
    state_.look = true;
  }
  changed_.notify_all();
}

void SandboxPool::StartBegan() {
  const std::lock_guard lock(mutex_);
  ++state_.starts;
}

void SandboxPool::StartEnded() {
  {
    const std::lock_guard lock(mutex_);
    state_.last_start = parts_.clock.Boot();
    if (--state_.starts > 0) return;
  }
  changed_.notify_all();
}

std::optional<SandboxPool::Member> SandboxPool::Take(const model::SandboxPlan& plan) {
  if (!FitsMember(plan)) return std::nullopt;
  UniqueFd uts;
  std::optional<Member> member;
  {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return std::nullopt;
    auto taken = ready_.extract(ready_.begin());
    state_.ready = ready_.size();
    uts = std::move(taken.mapped());
    member.emplace(*this, std::move(taken.key()));
  }
  // Where that cannot be, a new one is tried, and its failure is told.
  if (!NameHost(uts.get(), plan.hostname)) return std::nullopt;
  HOLDFAST_PAUSE_POINT("containers.member-named");
  return member;
}

// Looked for once more: a pod that did not get it has left it there.
void SandboxPool::Forget(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    known_.erase(id);
    state_.look = true;
  }
  changed_.notify_all();
}

void SandboxPool::Run() {
  const sched_param idle{};
  (void)::sched_setscheduler(0, SCHED_IDLE, &idle);  // a preference
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const PoolStep step = NextPoolStep(state_, parts_.clock.Boot());
    if (step.action == PoolStep::Action::kWait) {
      step.wait ? (void)changed_.wait_for(lock, *step.wait) : changed_.wait(lock);
      continue;
    }
    lock.unlock();
    if (step.action == PoolStep::Action::kLook) Look();
    if (step.action == PoolStep::Action::kDrop) DropOne();
    if (step.action == PoolStep::Action::kMake) Make();
    lock.lock();
  }
}

// What the keeper has and nobody knows is dropped; what it has no more is forgotten.
void SandboxPool::Look() {
  std::set<std::string> known;
  {
    const std::lock_guard lock(mutex_);
    state_.look = false;
    known = known_;
  }
  const auto listed = parts_.keeper.ListMembers();
  if (!listed) return;  // whoever brings the keeper back has us look again
  for (const std::string& id : *listed) {
    if (!known.contains(id)) (void)parts_.keeper.DropMember(id);  // likewise
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(ready_, [&](const auto& member) {
    if (!known.contains(member.first) || std::ranges::count(*listed, member.first) > 0)
      return false;
    known_.erase(member.first);
    return true;
  });
  state_.ready = ready_.size();
}

void SandboxPool::DropOne() {
  std::optional<Member> member;
  {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return;
    member.emplace(*this, std::move(ready_.extract(ready_.begin()).key()));
    state_.ready = ready_.size();
  }
  (void)parts_.keeper.DropMember(member->id());  // it is looked for once more
}

void SandboxPool::Make() {
  const std::string id = NewContainerId().value;
  {
    const std::lock_guard lock(mutex_);
    known_.insert(id);
  }
  auto uts = MakeOne(id);
  HOLDFAST_PAUSE_POINT("containers.member-made");
  if (!uts) return Failed(id, uts.error());
  const std::lock_guard lock(mutex_);
  ready_.emplace(id, std::move(*uts));
  state_.ready = ready_.size();
  state_.failed.reset();
  state_.look = true;  // what a former agent had asked for has come by now
}

Result<UniqueFd> SandboxPool::MakeOne(const std::string& id) {
  ASSIGN_OR_RETURN(const UniqueFd plan, SealPlan(MemberPlan()));
  auto made = parts_.keeper.MakeMember(id, plan.get());
  if (!made) return made.error().ToError();
  const auto uts = std::ranges::find(*made, "uts", &keeper::KeptFd::key);
  if (uts == made->end()) return Internal("it has no uts namespace");
  return std::move(uts->fd);
}

// Said once, however often it fails.
void SandboxPool::Failed(const std::string& id, const Error& error) {
  Forget(id);
  const std::lock_guard lock(mutex_);
  const bool again = state_.failed.has_value();
  state_.failed = parts_.clock.Boot();
  if (again || !parts_.options.warn) return;
  parts_.options.warn(StrCat("no sandbox lies ready for pods: ", error.message(), ", ignoring"));
}

}  // namespace holdfast::runtime
