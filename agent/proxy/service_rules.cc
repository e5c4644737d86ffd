// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_rules.h"

#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

Result<std::unique_ptr<ServiceRules>> ServiceRules::Open(
    ServiceRulesOptions options, std::optional<netproxy::StaleFlows> flows) {
  ASSIGN_OR_RETURN(ModeRecord record, ModeRecord::Load(options.record));
  std::unique_ptr<ServiceRules> rules(
      new ServiceRules(std::move(options), std::move(record), std::move(flows)));
  ASSIGN_OR_RETURN(rules->current_, rules->OpenMode(rules->options_.mode));
  rules->in_force_ = rules->current_.mode;
  return rules;
}

ServiceRules::~ServiceRules() { SetTouchedListener({}); }

bool ServiceRules::SetMode(const std::string& mode) {
  const std::lock_guard lock(mode_mutex_);
  wanted_ = mode;
  return wanted_ != in_force_;
}

std::string ServiceRules::mode() const {
  const std::lock_guard lock(mode_mutex_);
  return in_force_;
}

void ServiceRules::SetTouchedListener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

bool ServiceRules::Touched(RulesWatch& watch) {
  const auto touched = watch.Drain();
  if (!touched) {
    options_.log(StrCat("service rules: ", touched.error().message(),
                        "; others' changes are found by the periodic comparison only"));
    return false;
  }
  if (!*touched) return true;
  touched_ = true;
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_();
  return true;
}

Result<ServiceRules::Current> ServiceRules::OpenMode(const std::string& mode) {
  ASSIGN_OR_RETURN(OpenedBackEnd opened, options_.open(mode));
  Current current{mode, std::move(opened.back_end), std::move(opened.watch), nullptr};
  if (current.watch) {
    ASSIGN_OR_RETURN(current.watcher,
                     FdThread::Start(current.watch->fd(), [this, watch = current.watch.get()] {
                       return Touched(*watch);
                     }));
  }
  return current;
}

Result<ServiceApplied> ServiceRules::Apply(const model::ServiceChange& change) {
  RecordFlows(change);
  auto applied = ApplyRules(change);
  if (!applied) {
    options_.metrics->NoteFailure(current_.mode, change.complete);
    return applied;
  }
  options_.metrics->NoteRules(current_.back_end->CountRules());
  RETURN_IF_ERROR(DeleteStaleFlows([&](auto& flows) { return flows.After(change); }));
  if (change.complete) RemoveOtherModes();
  return applied;
}

Result<ServiceApplied> ServiceRules::ApplyRules(const model::ServiceChange& change) {
  if (!change.complete) return current_.back_end->Apply(change);
  std::string wanted;
  {
    const std::lock_guard lock(mode_mutex_);
    wanted = wanted_;
  }
  if (wanted != current_.mode) {
    auto changed = ChangeMode(wanted, change);
    if (changed) return changed;
    options_.log(StrCat("proxy mode ", wanted, ": ", changed.error().message(), "; ", current_.mode,
                        " goes on"));
    SetMode(current_.mode);
  }
  RETURN_IF_ERROR(record_.Add(current_.mode));
  return current_.back_end->Apply(change);
}

Result<ServiceApplied> ServiceRules::ChangeMode(const std::string& mode,
                                                const model::ServiceChange& change) {
  ASSIGN_OR_RETURN(Current next, OpenMode(mode));
  RETURN_IF_ERROR(record_.Add(mode));
  auto applied = next.back_end->Apply(change);
  if (!applied) {
    retired_[mode] = std::move(next.back_end);  // whatever it did is taken away again
    return applied;
  }
  HOLDFAST_PAUSE_POINT("proxy.mode.applied");
  options_.log(StrCat("proxy mode ", mode, " in place of ", current_.mode));
  std::swap(current_, next);
  retired_.erase(mode);
  retired_[next.mode] = std::move(next.back_end);
  const std::lock_guard lock(mode_mutex_);
  in_force_ = mode;
  return applied;
}

// Of modes before this one, whether they were ours or a former agent's. What cannot be removed is
// tried again with each repair.
void ServiceRules::RemoveOtherModes() {
  const std::set<std::string> modes = record_.modes();
  for (const std::string& mode : modes) {
    if (mode == current_.mode) continue;
    const auto removed = RemoveMode(mode);
    const std::string error =
        removed ? std::string()
                : StrCat("rules of proxy mode ", mode, " stay: ", removed.error().message());
    if (!removed) options_.metrics->NoteCleanupFailure();
    if (!error.empty() && error != removal_error_) options_.log(error);
    removal_error_ = error;
  }
}

Result<bool> ServiceRules::RemoveMode(const std::string& mode) {
  std::unique_ptr<ServiceBackEnd>& back_end = retired_[mode];
  if (back_end == nullptr && options_.remove_unopened) {
    ASSIGN_OR_RETURN(const std::optional<bool> removed, options_.remove_unopened(mode));
    if (removed) {
      retired_.erase(mode);
      RETURN_IF_ERROR(record_.Drop(mode));
      return *removed;
    }
  }
  if (back_end == nullptr) {
    ASSIGN_OR_RETURN(OpenedBackEnd opened, options_.open(mode));
    back_end = std::move(opened.back_end);
  }
  ASSIGN_OR_RETURN(const bool any, back_end->Remove());
  retired_.erase(mode);
  RETURN_IF_ERROR(record_.Drop(mode));
  return any;
}

// Rules go before this: what is not recorded matters only when a Service goes while no agent lives.
void ServiceRules::RecordFlows(const model::ServiceChange& change) {
  if (!flows_) return;
  const auto recorded = flows_->Before(change);
  const std::string error =
      recorded
          ? std::string()
          : StrCat("UDP and SCTP flows of Services that go while the agent is down will stay: ",
                   recorded.error().message());
  if (!error.empty() && error != record_error_) options_.log(error);
  record_error_ = error;
}

Result<void> ServiceRules::DeleteStaleFlows(
    const std::function<Result<size_t>(netproxy::StaleFlows&)>& deletion) {
  if (!flows_) return {};
  const auto began = std::chrono::steady_clock::now();
  auto deleted = deletion(*flows_);
  if (deleted) {
    options_.metrics->NoteFlows(std::chrono::steady_clock::now() - began, *deleted);
    return {};
  }
  const int error = deleted.error().sys_errno();
  if (error != EINVAL && error != EOPNOTSUPP) return std::move(deleted.error());
  options_.log(
      StrCat("UDP and SCTP flows outlive their endpoints here: ", deleted.error().message()));
  flows_.reset();
  return {};
}

Result<uint64_t> ServiceRules::Repair() {
  RemoveOtherModes();
  // A change may have put back already what somebody took away, so the news of it count too.
  const bool touched = touched_.exchange(false);
  ASSIGN_OR_RETURN(const uint64_t differences, current_.back_end->Repair());
  if (touched || differences != 0) {
    RETURN_IF_ERROR(DeleteStaleFlows([](auto& flows) { return flows.AfterRepair(); }));
  }
  return differences;
}

Result<bool> ServiceRules::Remove() {
  ASSIGN_OR_RETURN(bool any, current_.back_end->Remove());
  RETURN_IF_ERROR(record_.Drop(current_.mode));
  const std::set<std::string> modes = record_.modes();
  for (const std::string& mode : modes) {
    ASSIGN_OR_RETURN(const bool more, RemoveMode(mode));
    any |= more;
  }
  return any;
}

Result<std::string> ServiceRules::Dump() {
  ASSIGN_OR_RETURN(const std::string text, current_.back_end->Dump());
  return StrCat("# proxy mode ", current_.mode, "\n", text);
}

}  // namespace holdfast::agent
