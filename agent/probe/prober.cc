// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/prober.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <random>

#include "agent/kube/containers_of.h"
#include "agent/probe/probe_state.h"
#include "agent/probe/resolve.h"

namespace holdfast::agent {

struct Prober::Worker {
  Worker(boost::asio::io_context& io, PodPtr p, WantedProbe w)
      : pod(std::move(p)), wanted(std::move(w)), timer(io) {}

  PodUid Uid() const { return PodUid(pod->metadata().uid()); }
  const corev1::Container* Container() const { return kube::FindContainer(*pod, wanted.container); }
  bool IsInit() const {
    const auto& list = pod->spec().initcontainers();
    return std::ranges::find(list, wanted.container, &corev1::Container::name) != list.end();
  }

  PodPtr pod;
  WantedProbe wanted;
  corev1::Probe probe;
  ProbeState state;
  BootTime due;
  BootTime tried;  // begun for the first of the tries
  int tries = 0;
  boost::asio::steady_timer timer;
  std::unique_ptr<RunningCheck> running;
};

Result<std::unique_ptr<Prober>> Prober::Start(ContainerRuntime& runtime, const Clock& clock,
                                              Callbacks callbacks) {
  ASSIGN_OR_RETURN(auto runner, CheckRunner::Start(runtime));
  return std::unique_ptr<Prober>(new Prober(std::move(runner), clock, std::move(callbacks)));
}

Prober::Prober(std::unique_ptr<CheckRunner> runner, const Clock& clock, Callbacks callbacks)
    : runner_(std::move(runner)),
      clock_(clock),
      callbacks_(std::move(callbacks)),
      started_(clock.Wall()) {}

// The workers' sockets and timers are the runner's, and go before it.
Prober::~Prober() { runner_->Stop(); }

void Prober::SetListener(std::function<void(const PodUid&)> changed) {
  const std::lock_guard lock(mutex_);
  changed_ = std::move(changed);
}

void Prober::Want(PodPtr pod, std::vector<WantedProbe> probes) {
  runner_->Post([this, pod = std::move(pod), probes = std::move(probes)] { Take(pod, probes); });
}

void Prober::Forget(PodPtr pod) {
  runner_->Post([this, pod = std::move(pod)] {
    Take(pod, {});
    metrics_.Forget(*pod);
  });
}

std::vector<ProbeFact> Prober::FactsOf(const PodUid& uid) const {
  std::vector<ProbeFact> facts;
  const std::lock_guard lock(mutex_);
  const auto of_pod = results_.find(uid);
  if (of_pod == results_.end()) return facts;
  for (const auto& [key, result] : of_pod->second) {
    facts.push_back({key.first, key.second, result});
  }
  return facts;
}

void Prober::Take(const PodPtr& pod, const std::vector<WantedProbe>& probes) {
  const PodUid uid(pod->metadata().uid());
  std::map<Key, std::shared_ptr<Worker>> kept;
  auto& before = workers_[uid];
  for (const WantedProbe& wanted : probes) {
    const Key key{wanted.id, wanted.kind};
    const auto known = before.find(key);
    auto worker = known != before.end() ? known->second : Make(pod, wanted);
    if (worker == nullptr) continue;
    worker->pod = pod;
    worker->wanted = wanted;
    kept.emplace(key, std::move(worker));
  }
  {
    const std::lock_guard lock(mutex_);
    auto& results = results_[uid];
    std::erase_if(results, [&](const auto& entry) { return !kept.contains(entry.first); });
    if (results.empty()) results_.erase(uid);
  }
  before = std::move(kept);  // what is not kept is given up here
  if (before.empty()) workers_.erase(uid);
}

// Without a container or a probe of that kind there is nothing to do.
std::shared_ptr<Prober::Worker> Prober::Make(const PodPtr& pod, const WantedProbe& wanted) {
  auto worker = std::make_shared<Worker>(runner_->io(), pod, wanted);
  const corev1::Container* container = worker->Container();
  const corev1::Probe* probe = container ? ProbeOf(*container, wanted.kind) : nullptr;
  if (probe == nullptr) return nullptr;
  worker->probe = *probe;
  worker->state = BeginProbe(wanted.kind, wanted.known);
  worker->due =
      FirstDue(*probe, wanted.started_at, {clock_.Wall(), clock_.Boot(), started_, Random()});
  Schedule(worker);
  return worker;
}

double Prober::Random() {
  static std::mt19937 generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

// A worker that is given up is gone when its timer's handler asks for it.
void Prober::Schedule(const std::shared_ptr<Worker>& worker) {
  worker->tries = 0;
  worker->timer.expires_after(std::max(worker->due - clock_.Boot(), std::chrono::nanoseconds(0)));
  worker->timer.async_wait([this, weak = std::weak_ptr(worker)](const auto& cancelled) {
    const auto self = weak.lock();
    if (!cancelled && self) Try(self);
  });
}

void Prober::Try(const std::shared_ptr<Worker>& worker) {
  if (++worker->tries == 1) worker->tried = clock_.Boot();
  const corev1::Container* container = worker->Container();
  if (container == nullptr) return;  // the pod's next version has it no more; its turn follows
  const auto check =
      ResolveProbe(worker->probe.handler(), *container, worker->wanted.id, worker->wanted.pod_ip);
  if (!check) {
    worker->tries = kProbeTries;  // the next try would find the same
    return OnOutcome(worker, {CheckOutcome::How::kError, check.error().message()});
  }
  worker->running = runner_->Begin(*check, std::chrono::seconds(worker->probe.timeoutseconds()),
                                   [this, weak = std::weak_ptr(worker)](const CheckOutcome& out) {
                                     if (const auto self = weak.lock()) OnOutcome(self, out);
                                   });
}

void Prober::OnOutcome(const std::shared_ptr<Worker>& worker, const CheckOutcome& outcome) {
  if (outcome.how == CheckOutcome::How::kError && worker->tries < kProbeTries) return Try(worker);
  metrics_.Count(*worker->pod, worker->wanted, outcome.how, clock_.Boot() - worker->tried);
  const ProbeResult before = worker->state.result;
  auto note = CountOutcome(worker->state, worker->probe, outcome);
  if (note) {
    note->container = worker->wanted.container;
    note->init = worker->IsInit();
    callbacks_.event(*worker->pod, *note);
  }
  worker->running.reset();  // with what it read
  if (worker->state.result != before || worker->state.over) NoteResult(*worker);
  if (worker->state.over) return;
  worker->due = NextDue(worker->probe, worker->due, clock_.Boot());
  Schedule(worker);
}

void Prober::NoteResult(const Worker& worker) {
  std::function<void(const PodUid&)> changed;
  {
    const std::lock_guard lock(mutex_);
    results_[worker.Uid()][{worker.wanted.id, worker.wanted.kind}] = worker.state.result;
    changed = changed_;
  }
  if (changed) changed(worker.Uid());
}

}  // namespace holdfast::agent
