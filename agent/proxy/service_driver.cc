// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_driver.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {

ServiceDriver::ServiceDriver(ServiceBackEnd& back_end, const Clock& clock,
                             ServiceDriverOptions options, ServiceDriverCallbacks callbacks)
    : back_end_(back_end),
      clock_(clock),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      tracker_(options_.table),
      retry_delay_(options_.first_retry) {}

ServiceDriver::~ServiceDriver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& asked : dumps_) asked->set_value(Unavailable("service proxy: it is stopping"));
}

Result<void> ServiceDriver::Start() {
  ASSIGN_OR_RETURN(thread_, sys::StartThread("service-driver", [this] { Run(); }));
  const std::lock_guard lock(mutex_);
  started_ = true;
  return {};
}

void ServiceDriver::Edit(const std::function<void(netproxy::ServiceTracker&)>& edit,
                         const std::vector<WallTime>& triggers) {
  {
    const std::lock_guard lock(mutex_);
    edit(tracker_);
    triggers_.insert(triggers_.end(), triggers.begin(), triggers.end());
    if (tracker_.HasChanges()) {
      options_.metrics->NoteQueued(clock_.Wall());
      if (!health_.pending_since) health_.pending_since = clock_.Boot();
    }
  }
  changed_.notify_all();
}

void ServiceDriver::RepairSoon() {
  {
    const std::lock_guard lock(mutex_);
    repair_at_ = std::min(repair_at_, std::max(Steady::now(), repaired_at_ + options_.repair_gap));
  }
  changed_.notify_all();
}

void ServiceDriver::ApplyAll() {
  {
    const std::lock_guard lock(mutex_);
    resend_ = true;
    retry_at_ = {};
    if (!health_.pending_since) health_.pending_since = clock_.Boot();
  }
  changed_.notify_all();
}

Result<std::string> ServiceDriver::Dump() {
  const auto asked = std::make_shared<std::promise<Result<std::string>>>();
  {
    const std::lock_guard lock(mutex_);
    if (!started_ || stopping_) return Unavailable("service proxy: no rules are written yet");
    dumps_.push_back(asked);
  }
  changed_.notify_all();
  return asked->get_future().get();
}

void ServiceDriver::RunDumps(std::unique_lock<std::mutex>& lock) {
  const auto asked = std::exchange(dumps_, {});
  lock.unlock();
  for (const auto& one : asked) one->set_value(back_end_.Dump());
  lock.lock();
}

std::optional<netproxy::ServiceExplanation> ServiceDriver::Explain(
    const model::ServiceName& name) const {
  const std::lock_guard lock(mutex_);
  auto explanation = tracker_.Explain(name);
  if (!explanation) return explanation;
  for (const auto& [key, reason] : refused_) {
    if (netproxy::ServiceOf(key.name) == name) {
      explanation->problems.push_back(StrCat(key.name, ": ", reason));
    }
  }
  return explanation;
}

void ServiceDriver::SetHealthCheckListener(std::function<void(const HealthChecks&)> listener) {
  const std::lock_guard hold(listener_mutex_);
  listener_ = std::move(listener);
  if (!listener_) return;
  HealthChecks checks;
  {
    const std::lock_guard lock(mutex_);
    checks = tracker_.health_checks();
  }
  listener_(checks);
}

namespace {

// Whether a frontend whose list `list` is Local finds nobody here, though there is somebody.
bool Discards(const model::ServicePortRow& row, model::EndpointList list) {
  return list == model::EndpointList::kLocal &&
         model::AnswerOf(row, list) == model::FrontendAnswer::kDiscard;
}

}  // namespace

void ServiceDriver::Describe(ProxyMetrics::Now& now) const {
  const std::lock_guard lock(mutex_);
  now.service_changes = tracker_.changes().services;
  now.endpoint_changes = tracker_.changes().slices;
  now.pending_service_changes = tracker_.pending_changes().services;
  now.pending_endpoint_changes = tracker_.pending_changes().slices;
  for (const model::ServicePortRowPtr& row : tracker_.Complete().rows) {
    bool internal = false;
    bool external = false;
    for (const model::Frontend& frontend : row->frontends) {
      const bool cluster_ip = frontend.kind == model::FrontendKind::kClusterIp;
      (cluster_ip ? internal : external) |= Discards(*row, frontend.outside);
    }
    const char* family = row->key.v6 ? "IPv6" : "IPv4";
    now.no_local_internal[family] += internal ? 1 : 0;
    now.no_local_external[family] += external ? 1 : 0;
  }
}

ServiceProxyHealth ServiceDriver::Health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

bool ServiceDriver::WaitUntilApplied(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return !applying_ && !IsDue(); });
}

ServiceDriver::Steady::time_point ServiceDriver::NextWork() const {
  if (IsDue()) return retry_at_;
  return repair_at_;
}

void ServiceDriver::Run() {
  std::unique_lock lock(mutex_);
  repair_at_ = Steady::now() + options_.repair_every;
  while (!stopping_) {
    if (!dumps_.empty()) {
      RunDumps(lock);
    } else if (Steady::now() < NextWork()) {
      changed_.wait_until(lock, NextWork());
    } else if (IsDue()) {
      Sync(lock);
    } else {
      Repair(lock);
    }
  }
}

void ServiceDriver::Sync(std::unique_lock<std::mutex>& lock) {
  netproxy::ServiceUpdate update = tracker_.Commit();
  for (netproxy::ServiceProblems& problem : update.problems) {
    to_tell_.insert(problem.name);
    if (problem.messages.empty()) {
      problems_.erase(problem.name);
    } else {
      problems_[problem.name] = std::move(problem.messages);
    }
  }
  if (std::exchange(resend_, false)) update.change = tracker_.Complete();
  Apply(lock, update.change);
  Tell(lock, update.health_checks_changed);
}

// The lock is let go while the back end works.
void ServiceDriver::Apply(std::unique_lock<std::mutex>& lock, const model::ServiceChange& change) {
  applying_ = true;
  const std::optional<BootTime> pending = health_.pending_since;
  health_.pending_since.reset();  // an edit from here on is a new pending one
  std::vector<WallTime> triggers = std::exchange(triggers_, {});
  const Steady::time_point began = Steady::now();
  lock.unlock();
  const auto applied = back_end_.Apply(change);
  const auto took = Steady::now() - began;
  lock.lock();
  applying_ = false;
  if (applied) {
    NoteSuccess(change, *applied);
    options_.metrics->NoteSync(change.complete, took, health_.last_updated, triggers);
  } else {
    if (pending) health_.pending_since = pending;
    triggers_.insert(triggers_.end(), triggers.begin(), triggers.end());
    NoteFailure(applied.error());
  }
  changed_.notify_all();
}

void ServiceDriver::NoteSuccess(const model::ServiceChange& change, const ServiceApplied& applied) {
  retry_at_ = {};
  retry_delay_ = options_.first_retry;
  if (!health_.error.empty()) lines_.push_back("service rules are in place again");
  health_.error.clear();
  health_.last_updated = clock_.Wall();
  NoteRefused(change, applied);
}

void ServiceDriver::NoteFailure(const Error& error) {
  if (health_.error != error.message()) {
    lines_.push_back(StrCat("service rules: ", error.message(), ", trying again"));
  }
  health_.error = error.message();
  if (!health_.pending_since) health_.pending_since = clock_.Boot();
  resend_ = true;
  retry_at_ = Steady::now() + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, options_.last_retry);
}

void ServiceDriver::NoteRefused(const model::ServiceChange& change, const ServiceApplied& applied) {
  const auto forget = [this](const model::ServicePortKey& key) {
    if (refused_.erase(key) != 0) to_tell_.insert(netproxy::ServiceOf(key.name));
  };
  if (change.complete) {
    while (!refused_.empty()) forget(model::ServicePortKey(refused_.begin()->first));
  }
  for (const model::ServicePortKey& key : change.removed) forget(key);
  for (const model::ServicePortRowPtr& row : change.rows) forget(row->key);
  for (const RefusedServicePort& refused : applied.refused) {
    refused_[refused.key] = refused.reason;
    to_tell_.insert(netproxy::ServiceOf(refused.key.name));
  }
}

void ServiceDriver::Repair(std::unique_lock<std::mutex>& lock) {
  const Steady::time_point began = Steady::now();
  repair_at_ = Steady::time_point::max();  // what RepairSoon() says from here on comes earlier
  applying_ = true;
  lock.unlock();
  const auto repaired = back_end_.Repair();
  lock.lock();
  applying_ = false;
  repaired_at_ = Steady::now();
  const auto pause = std::max<Steady::duration>(options_.repair_every, (repaired_at_ - began) * 19);
  repair_at_ =
      std::min(std::max(repair_at_, repaired_at_ + options_.repair_gap), repaired_at_ + pause);
  if (!repaired) {
    NoteFailure(repaired.error());
  } else if (*repaired != 0) {
    lines_.push_back(StrCat("service rules: ", *repaired, " differences repaired"));
  }
  if (!refused_.empty() && !resend_) RetryRefused(lock);
  Tell(lock, false);
}

// What stood in the way may be gone by now.
void ServiceDriver::RetryRefused(std::unique_lock<std::mutex>& lock) {
  model::ServiceChange change = tracker_.Complete();
  change.complete = false;
  std::erase_if(change.rows, [this](const model::ServicePortRowPtr& row) {
    return !refused_.contains(row->key);
  });
  Apply(lock, change);
}

ServiceDriver::Report ServiceDriver::TakeReport() {
  Report report;
  for (const model::ServiceName& name : std::exchange(to_tell_, {})) {
    std::vector<std::string> messages;
    if (const auto found = problems_.find(name); found != problems_.end()) {
      messages = found->second;
    }
    for (const auto& [key, reason] : refused_) {
      if (netproxy::ServiceOf(key.name) == name) {
        messages.push_back(StrCat(key.name, key.v6 ? " (IPv6): " : " (IPv4): ", reason));
      }
    }
    if (told_[name] != messages) report[name] = messages;
    if (messages.empty()) {
      told_.erase(name);
    } else {
      told_[name] = std::move(messages);
    }
  }
  return report;
}

void ServiceDriver::Tell(std::unique_lock<std::mutex>& lock, bool health_checks_changed) {
  const Report report = TakeReport();
  const std::vector<std::string> lines = std::exchange(lines_, {});
  HealthChecks checks;
  if (health_checks_changed) checks = tracker_.health_checks();
  lock.unlock();
  for (const std::string& line : lines) {
    if (callbacks_.log) callbacks_.log(line);
  }
  for (const auto& [name, messages] : report) {
    if (callbacks_.problems) callbacks_.problems(name, messages);
  }
  if (health_checks_changed) {
    const std::lock_guard hold(listener_mutex_);
    if (listener_) listener_(checks);
  }
  lock.lock();
}

}  // namespace holdfast::agent
