// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/pod/orders/world.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/pod/orders/end_model.h"

namespace holdfast::agent::orders {
namespace {

using Kind = Action::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kMostSteps = 20'000;

bool IsHook(const Action& action) {
  return action.kind == Kind::kPostStart || action.kind == Kind::kPreStop;
}

bool HeedsCancel(const Action& action) {
  return action.kind == Kind::kEnsureVolumes || action.kind == Kind::kEnsureSandbox ||
         action.kind == Kind::kPull || action.kind == Kind::kStart;
}

}  // namespace

World::World(uint64_t seed, bool told)
    : dice_(seed), told_(told), random_(ThrowPod(dice_)), rules_(*this) {
  born_ = next_turn_ = now_;
  trouble_ends_ = now_ + seconds(dice_.Between(0, 600));
  if (dice_.OneIn(4)) loss_at_ = now_ + dice_.Millis(0, 200'000);
  if (dice_.OneIn(6)) reboot_at_ = now_ + dice_.Millis(0, 200'000);
  const bool has_inputs = random_.origin == PodOrigin::kApi && dice_.OneIn(2);
  inputs_at_ = has_inputs ? now_ + dice_.Millis(0, 10'000) : now_;
  inputs_change_at_ = now_ + dice_.Millis(1000, 100'000);
  if (random_.image_is_here) images_.insert("x");
  asked_ = given_ = std::make_shared<const corev1::Pod>(random_.pod);
  node_.name = "n1";
  node_.host_ips = {"192.0.2.1"};
  node_.memory_capacity_bytes = 1ll << 30;
  memory_ = Newborn();
}

std::string World::Live() {
  for (int step = 0; step < kMostSteps; ++step) {
    if (!fault_.empty()) return fault_;
    if (cleaned_ || IsAtRest()) return CompareWithModel(*this);
    Step();
  }
  return "it comes to no rest";
}

void World::Tell(const std::string& text) {
  if (!told_) return;
  const auto ms = std::chrono::duration_cast<milliseconds>(now_ - born_).count();
  story_.push_back(StrCat(ms / 1000, ".", std::to_string(1000 + ms % 1000).substr(1), " ", text));
}

const Process* World::Running(const std::string& name) const {
  const auto it = std::ranges::find_if(
      processes_, [&](const Process& p) { return p.name == name && p.runs(); });
  return it == processes_.end() ? nullptr : &*it;
}

// ---- time ----------------------------------------------------------------------------------

std::optional<BootTime> World::NextEvent() const {
  std::optional<BootTime> next;
  const auto at = [&](BootTime time) {
    if (time > now_ && (!next || time < *next)) next = time;
  };
  at(next_turn_);
  for (const Operation& o : operations_) {
    if (!o.fact.begun) at(o.begins_at);
    if (!o.took_effect) at(o.takes_effect_at);
    at(o.ends_at);
  }
  for (const Process& p : processes_) {
    if (!p.runs()) continue;
    if (p.dies_at) at(*p.dies_at);
    const Script& script = random_.scripts.at(p.name);
    at(p.started_boot + script.started_after);
    at(p.started_boot + script.ready_after);
    if (p.run.sick_after) at(p.started_boot + *p.run.sick_after);
    if (script.unready) {
      at(p.started_boot + script.unready->first);
      at(p.started_boot + script.unready->second);
    }
  }
  if (random_.deleted_after) {
    at(born_ + *random_.deleted_after);
    if (random_.shortened_after) at(born_ + *random_.deleted_after + *random_.shortened_after);
  }
  if (random_.evicted_after) at(born_ + *random_.evicted_after);
  if (random_.ended_elsewhere_after) at(born_ + *random_.ended_elsewhere_after);
  for (const Wish& wish : random_.wishes) at(born_ + wish.after);
  at(room_at_);
  for (const auto& wait : {random_.network_after, random_.secrets_after, random_.sandbox_after}) {
    at(born_ + wait);
  }
  for (const auto& time : {loss_at_, reboot_at_, object_gone_at_}) {
    if (time) at(*time);
  }
  if (random_.origin == PodOrigin::kApi) {
    at(inputs_at_);
    at(inputs_change_at_);
  }
  return next;
}

void World::Step() {
  if (next_turn_ > now_) now_ = *NextEvent();
  if (next_turn_ > now_) {
    idle_ = false;  // something is new
    Hint();
  }
  NoteDeletions();
  NoteWishes();
  LoseSandbox();
  AdvanceOperations();
  LetProcessesDie();
  Reboot();
  if (now_ >= next_turn_ && !cleaned_ && fault_.empty()) Turn();
}

// The pod is to be looked at: at once, late, or this once not at all.
void World::Hint() {
  if (Troubled() && dice_.OneIn(8)) return;
  const bool late = Troubled() && dice_.OneIn(4);
  next_turn_ = std::min(next_turn_, now_ + (late ? dice_.Millis(1, 3000) : milliseconds(0)));
}

void World::NoteDeletions() {
  if (!random_.deleted_after || now_ < born_ + *random_.deleted_after) return;
  if (!deletion_grace_) {
    deletion_grace_ = random_.deletion_grace;
    object_gone_ = random_.origin == PodOrigin::kApi && random_.forced;
    Tell(StrCat("deleted, grace ", deletion_grace_->count(), object_gone_ ? ", forced" : ""));
    Hint();
  }
  const bool shortened =
      random_.shortened_after && now_ >= born_ + *random_.deleted_after + *random_.shortened_after;
  if (shortened && *deletion_grace_ > seconds(1)) {
    deletion_grace_ = seconds(1);
    Tell("deleted again, grace 1");
    Hint();
  }
  if (object_gone_at_ && now_ >= *object_gone_at_ && !object_gone_) {
    object_gone_ = true;
    Tell("the object is gone");
    Hint();
  }
}

// What the object says by now.
void World::NoteWishes() {
  while (wishes_heard_ < random_.wishes.size() &&
         now_ >= born_ + random_.wishes[wishes_heard_].after) {
    Fulfil(random_.wishes[wishes_heard_++]);
  }
  const auto& elsewhere = random_.ended_elsewhere_after;
  if (!elsewhere || now_ < born_ + *elsewhere || asked_->has_status()) return;
  auto ended = std::make_shared<corev1::Pod>(*asked_);
  ended->mutable_status()->set_phase("Failed");
  ended->mutable_status()->set_reason(kElsewhere);
  asked_ = std::move(ended);
  Tell("somebody else writes its end down");
  Hint();
}

void World::Fulfil(const Wish& wish) {
  auto wanted = std::make_shared<corev1::Pod>(*asked_);
  auto* const meta = wanted->mutable_metadata();
  meta->set_generation(meta->generation() + 1);
  corev1::PodSpec* const spec = wanted->mutable_spec();
  for (auto* list : {spec->mutable_initcontainers(), spec->mutable_containers()}) {
    for (corev1::Container& c : *list) {
      if (c.name() != wish.container) continue;
      if (wish.what == Wish::What::kImage) {
        c.set_image(wish.value);
      } else {
        (*c.mutable_resources()->mutable_requests())["cpu"].set_string(wish.value);
      }
    }
  }
  asked_ = std::move(wanted);
  Tell(StrCat(wish.container, " is to have ", wish.value, wish.infeasible ? ", never" : ""));
  if (wish.what == Wish::What::kCpu) {
    infeasible_ = wish.infeasible;
    room_at_ = now_ + wish.room_after;
  }
  Hint();
}

void World::LoseSandbox() {
  if (!loss_at_ || now_ < *loss_at_) return;
  loss_at_.reset();
  if (sandbox_ == Sandbox::kNone) return;
  // With the init of its processes these end as well, one after the other.
  const bool by_its_init = dice_.OneIn(2);
  Tell(by_its_init ? "the init of its processes ends" : "the sandbox is lost");
  for (Process& p : processes_) {
    if (!p.runs()) continue;
    if (!by_its_init) {
      Die(p, 137, SIGKILL);
      continue;
    }
    const BootTime killed_at = now_ + dice_.Millis(0, 50);
    if (p.dies_at && *p.dies_at <= killed_at) continue;
    p.dies_at = killed_at;
    p.dies_with = 137;
  }
  sandbox_ = by_its_init ? Sandbox::kDying : Sandbox::kPartial;
  Hint();
}

// Of a run that a record tells of nobody knows how it ended; one that it does not tell of never was.
void World::ForgetRun(const Process& process) {
  const auto known = record_ ? record_->containers.find(process.name) : memory_.containers.end();
  const bool recorded = record_ && known != record_->containers.end();
  if (recorded && known->second.last && known->second.last->attempt >= process.attempt) return;
  const bool ran = recorded && known->second.current && known->second.current->id == process.id;
  if (ran) {
    ends_[process.name][process.attempt] = 137;
  } else {
    ends_[process.name].erase(process.attempt);
  }
}

void World::Reboot() {
  if (!reboot_at_ || now_ < *reboot_at_ || cleaned_) return;
  reboot_at_.reset();
  Tell("the machine starts again");
  for (const Process& process : processes_) ForgetRun(process);
  processes_.clear();
  operations_.clear();
  sandbox_ = Sandbox::kNone;
  Crash();
}

void World::LetProcessesDie() {
  for (Process& p : processes_) {
    if (p.runs() && p.dies_at && now_ >= *p.dies_at)
      Die(p, p.dies_with, p.dies_with == 137 ? SIGKILL : 0);
  }
}

void World::Die(Process& process, int code, int signal) {
  Tell(StrCat(process.id.value, " ends with ", code));
  model::ExitReport exit;
  exit.exit_code = code;
  exit.signal = signal;
  exit.finished_at = {now_.since_boot + wall_minus_boot_};
  process.exit = exit;
  ends_[process.name][process.attempt] = code;
  rules_.NoteExit(process);
  Hint();
}

bool World::IsAtRest() const {
  if (!idle_ || !operations_.empty() || !ended_.empty() || Troubled()) return false;
  if (random_.deleted_after || loss_at_ || reboot_at_ || now_ <= inputs_change_at_) return false;
  if (random_.evicted_after && !IsEvicted()) return false;
  if (wishes_heard_ < random_.wishes.size() || now_ <= room_at_) return false;
  if (random_.ended_elsewhere_after && now_ <= born_ + *random_.ended_elsewhere_after) return false;
  // Only the next look, which nothing asks for.
  const auto next = NextEvent();
  return !next || *next >= next_turn_;
}

// ---- operations ----------------------------------------------------------------------------

void World::AdvanceOperations() {
  for (size_t i = 0; i < operations_.size();) {
    Operation& o = operations_[i];
    if (!o.fact.begun && now_ >= o.begins_at) {
      o.fact.begun = true;
      o.fact.since = now_;
    }
    if (!o.took_effect && now_ >= o.takes_effect_at) TakeEffect(o);
    if (now_ < o.ends_at) {
      ++i;
      continue;
    }
    EndOperation(o);
    operations_.erase(operations_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void World::TakeEffect(Operation& o) {
  o.took_effect = true;
  if (o.cancelled && HeedsCancel(o.fact.action) && dice_.OneIn(2))
    o.how = OperationEnd::How::kCancelled;
  const Action& action = o.fact.action;
  if (o.how != OperationEnd::How::kDone) {
    if (action.kind == Kind::kEnsureSandbox && sandbox_ == Sandbox::kNone)
      sandbox_ = Sandbox::kPartial;
    return;
  }
  if (action.kind == Kind::kStart && sandbox_ != Sandbox::kReady) {
    o.how = OperationEnd::How::kFailed;
    return;
  }
  if (const std::string fault = rules_.TakesEffect(action); !fault.empty()) return Fault(fault);
  Tell(StrCat("  ", ToString(action), " takes effect"));
  switch (action.kind) {
    case Kind::kEnsureVolumes:
      volumes_ = true;
      break;
    case Kind::kEnsureSandbox:
      if (sandbox_ != Sandbox::kReady) rules_.NoteNewSandbox();
      sandbox_ = Sandbox::kReady;
      break;
    case Kind::kPull:
      images_.insert(action.image);
      break;
    case Kind::kStart:
      return StartProcess(o);
    case Kind::kSignal:
      return SignalProcess(action.id);
    case Kind::kKill:
      return KillProcess(action.id);
    case Kind::kRemove:
      std::erase_if(processes_, [&](const Process& p) { return p.id == action.id; });
      break;
    case Kind::kRemoveSandbox:
      sandbox_ = Sandbox::kNone;
      break;
    case Kind::kReleaseVolumes:
      volumes_ = false;
      break;
    case Kind::kCleanUp:
      volumes_ = false;
      cleaned_ = true;
      break;
    case Kind::kResize:
      return ResizeProcesses(o);
    case Kind::kPostStart:
    case Kind::kPreStop:
      break;
  }
}

void World::ResizeProcesses(Operation& o) {
  if (random_.wishes.empty()) return Fault("a resize that nobody asked for");
  for (Process& p : processes_) {
    if (std::ranges::find(o.running, p.id) == o.running.end()) continue;
    const Amounts amounts = EffectiveAmounts(*o.pod, *SpecOf(*o.pod, p.name));
    o.end.resized[p.id] = amounts;
    if (p.runs()) p.amounts = amounts;
  }
  o.end.resized_pod = PodAmounts(*o.pod);
}

void World::StartProcess(Operation& o) {
  const Action& action = o.fact.action;
  const Script& script = random_.scripts.at(action.container);
  size_t& number = runs_so_far_[action.container];
  Process p;
  p.id = ContainerId(StrCat(action.container, "-", action.attempt, "-", next_id_++));
  p.name = action.container;
  p.attempt = action.attempt;
  p.started = {now_.since_boot + wall_minus_boot_};
  p.started_boot = now_;
  if (const corev1::Container* const c = SpecOf(*o.pod, p.name); c != nullptr) {
    p.image = c->image();
    p.amounts = EffectiveAmounts(*o.pod, *c);
  }
  p.run = script.runs[std::min(number++, script.runs.size() - 1)];
  if (p.run.lasts) p.dies_at = now_ + *p.run.lasts;
  p.dies_with = p.run.exit_code;
  o.end.started =
      StartedContainer{.id = p.id, .pid = 1, .started_at = p.started, .user = EffectiveUser{}};
  processes_.push_back(std::move(p));
}

void World::SignalProcess(const ContainerId& id) {
  for (Process& p : processes_) {
    if (p.id != id || !p.runs()) continue;
    const auto& dies_after = random_.scripts.at(p.name).dies_after;
    if (!dies_after || (p.dies_at && *p.dies_at <= now_ + *dies_after)) continue;
    p.dies_at = now_ + *dies_after;
    p.dies_with = random_.scripts.at(p.name).code_when_stopped;
  }
}

// Now and then a process is not gone at once.
void World::KillProcess(const ContainerId& id) {
  for (Process& p : processes_) {
    if (p.id != id || !p.runs()) continue;
    const BootTime at = now_ + (Troubled() && dice_.OneIn(4) ? seconds(3) : seconds(0));
    if (p.dies_at && *p.dies_at <= at) continue;
    p.dies_at = at;
    p.dies_with = 137;
  }
}

void World::EndOperation(Operation& o) {
  OperationEnd end = std::move(o.end);
  end.action = o.fact.action;
  end.how = o.how;
  end.wall = {now_.since_boot + wall_minus_boot_};
  end.boot = now_;
  end.inputs_version = o.inputs_version;
  if (end.how == OperationEnd::How::kFailed) {
    end.error = "it failed";
    if (end.action.kind == Kind::kStart) {
      const int phase = sandbox_ == Sandbox::kReady ? dice_.Below(3) : 1;
      end.start_failure =
          StartFailure{static_cast<StartFailure::Phase>(phase), Internal("it failed")};
    }
  } else if (end.how == OperationEnd::How::kDone) {
    if (end.action.kind == Kind::kEnsureSandbox) end.pod_ips = {"10.88.0.2"};
    if (end.action.kind == Kind::kPull) end.pulled = PulledFact{};
  }
  Tell(StrCat("  ", ToString(end.action), " ends, ", static_cast<int>(end.how)));
  ended_.push_back(std::move(end));
  Hint();
}

void World::Begin(const Action& action) {
  if (const std::string fault = rules_.Begins(action); !fault.empty()) return Fault(fault);
  Tell(StrCat("  ", ToString(action), " begins"));
  Operation o;
  o.fact = {action, IsHook(action), now_, false};
  const bool hangs = Troubled() && dice_.OneIn(30);
  const int most = hangs                        ? 400'000
                   : IsHook(action)             ? 40'000
                   : action.kind == Kind::kPull ? 20'000
                                                : 500;
  o.begins_at = IsHook(action) || !Troubled() ? now_ : now_ + dice_.Millis(0, 200);
  o.takes_effect_at = o.begins_at + dice_.Millis(0, most);
  o.ends_at = o.takes_effect_at + dice_.Millis(0, Troubled() ? 500 : 0);
  if (Troubled() && dice_.OneIn(8)) o.how = OperationEnd::How::kFailed;
  o.inputs_version = now_ >= inputs_change_at_ ? 2 : 1;
  o.pod = allocated_;
  for (const Process& p : processes_) {
    const auto mine = memory_.containers.find(p.name);
    const bool is_current = mine != memory_.containers.end() && mine->second.current &&
                            mine->second.current->id == p.id;
    if (is_current && SpecOf(*allocated_, p.name) != nullptr) o.running.push_back(p.id);
  }
  operations_.push_back(std::move(o));
}

// A hook and what has not begun end at once.
void World::Cancel(const Action& action) {
  const auto it = std::ranges::find_if(operations_,
                                       [&](const Operation& o) { return o.fact.action == action; });
  if (it == operations_.end()) return;
  it->cancelled = true;
  if (it->fact.begun && !IsHook(action)) return;
  it->how = OperationEnd::How::kCancelled;
  EndOperation(*it);
  operations_.erase(it);
}

}  // namespace holdfast::agent::orders
