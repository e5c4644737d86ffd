// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/sandbox_pool.h"

#include <sched.h>

#include <algorithm>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

// Of the least priority but where it holds a lock of the kernel's that all wait for: it must not be kept from going on by
// whatever else wants a processor.
void SetPolicy(int policy) {
  const sched_param parameters{};
  (void)::sched_setscheduler(0, policy, &parameters);  // a preference
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
  for (const std::string& id : ready_) {
    if (!parts_.keeper.DropMember(id)) return;  // the next agent does it
  }
}

void SandboxPool::KeepReady(size_t members) {
  {
    const std::lock_guard lock(mutex_);
    if (state_.wanted == members) return;  // it is said again every ten seconds
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
  const std::lock_guard lock(mutex_);
  return TakeOut();
}

std::optional<SandboxPool::Member> SandboxPool::TakeOut() {
  if (ready_.empty()) return std::nullopt;
  Member member(*this, std::move(ready_.extract(ready_.begin()).value()));
  state_.ready = ready_.size();
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
  SetPolicy(SCHED_IDLE);
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
  std::erase_if(ready_, [&](const std::string& id) {
    if (!known.contains(id) || std::ranges::count(*listed, id) > 0) return false;
    known_.erase(id);
    return true;
  });
  state_.ready = ready_.size();
}

void SandboxPool::DropOne() {
  const std::optional<Member> member = [this] {
    const std::lock_guard lock(mutex_);
    return TakeOut();
  }();
  if (member) (void)parts_.keeper.DropMember(member->id());  // it is looked for once more
}

void SandboxPool::Make() {
  const std::string id = NewContainerId().value;
  {
    const std::lock_guard lock(mutex_);
    known_.insert(id);
  }
  const auto made = MakeOne(id);
  HOLDFAST_PAUSE_POINT("containers.member-made");
  if (!made) return Failed(id, made.error());
  const std::lock_guard lock(mutex_);
  ready_.insert(id);
  state_.ready = ready_.size();
  state_.failed.reset();
  state_.look = true;  // what a former agent had asked for has come by now
}

Result<void> SandboxPool::MakeOne(const std::string& id) {
  ASSIGN_OR_RETURN(const UniqueFd plan, SealPlan(MemberPlan()));
  const auto made = parts_.keeper.MakeMember(id, plan.get());
  if (!made) return made.error().ToError();
  if (!parts_.options.make_network_ready) return {};
  const auto net = std::ranges::find(*made, "net", &keeper::KeptFd::key);
  if (net == made->end()) return Internal("it has no network namespace");
  HOLDFAST_PAUSE_POINT("containers.member-kept");
  SetPolicy(SCHED_OTHER);
  auto ready = parts_.options.make_network_ready(net->fd.get());
  SetPolicy(SCHED_IDLE);
  return ready;
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
