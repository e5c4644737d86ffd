// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_services.h"

#include <algorithm>

#include "agent/proxy/local_endpoints.h"
#include "agent/source/snapshot_difference.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kRetry{1};

// Who asks for something of his choice gets it before it is given to somebody who takes anything.
int Rank(const corev1::Service& service, const ServiceBook& book) {
  if (book.Knows(NameOf(service))) return 0;
  const auto& ports = service.spec().ports();
  const bool chooses = !service.spec().clusterip().empty() ||
                       service.spec().healthchecknodeport() != 0 ||
                       std::any_of(ports.begin(), ports.end(),
                                   [](const auto& port) { return port.nodeport() != 0; });
  return chooses ? 1 : 2;
}

}  // namespace

LocalServices::LocalServices(PodSource& source, PodView& pods, ServiceBackEnd& back_end,
                             const Clock& clock, ServiceBook book, LocalServicesOptions options,
                             LocalServicesCallbacks callbacks)
    : source_(source),
      book_(std::move(book)),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      deadline_(Steady::now() + options_.patience),
      node_addresses_(options_.driver.table.node_addresses),
      driver_(back_end, clock, options_.driver, DriverCallbacks()) {
  work_.source_changed = true;
  subscription_ = pods.WatchPods([this](const PodChange& change) {
    const auto& meta = change.pod->metadata();
    {
      const std::lock_guard lock(mutex_);
      work_.pods[{meta.namespace_(), meta.name()}] =
          change.type == ChangeType::kDeleted ? nullptr : change.pod;
    }
    wake_.notify_one();
  });
}

LocalServices::~LocalServices() {
  subscription_.reset();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

ServiceDriverCallbacks LocalServices::DriverCallbacks() {
  ServiceDriverCallbacks callbacks;
  callbacks.problems = [this](const ServiceName& name, const std::vector<std::string>& messages) {
    TellProblems(name, messages);
  };
  callbacks.log = callbacks_.log;
  return callbacks;
}

void LocalServices::TellProblems(const ServiceName& name,
                                 const std::vector<std::string>& messages) {
  const ServicePtr service = Find(name);
  if (service == nullptr) return;  // deleted meanwhile
  std::vector<ServiceTrouble> troubles;
  for (const std::string& message : messages) troubles.push_back({"Quarantined", message});
  Tell(*service, troubles);
}

void LocalServices::Tell(const corev1::Service& service,
                         const std::vector<ServiceTrouble>& troubles) {
  if (!callbacks_.trouble) return;
  for (const ServiceTrouble& trouble : troubles) callbacks_.trouble(service, trouble);
}

Result<std::unique_ptr<LocalServices>> LocalServices::Start(PodSource& source, PodView& pods,
                                                            ServiceBackEnd& back_end,
                                                            const Clock& clock, ServiceBook book,
                                                            LocalServicesOptions options,
                                                            LocalServicesCallbacks callbacks) {
  std::unique_ptr<LocalServices> services(new LocalServices(
      source, pods, back_end, clock, std::move(book), std::move(options), std::move(callbacks)));
  ASSIGN_OR_RETURN(services->thread_,
                   sys::StartThread("local-services", [s = services.get()] { s->Run(); }));
  return services;
}

void LocalServices::SourceChanged() {
  {
    const std::lock_guard lock(mutex_);
    work_.source_changed = true;
  }
  wake_.notify_one();
}

void LocalServices::SetTableOptions(const netproxy::TableOptions& table) {
  {
    const std::lock_guard lock(mutex_);
    node_addresses_ = table.node_addresses;
  }
  driver_.Edit([&](netproxy::ServiceTracker& tracker) { tracker.SetOptions(table); });
}

void LocalServices::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto has_work = [this] {
      return stopping_ || work_.source_changed || !work_.pods.empty();
    };
    if (started_ && !failed_) {
      wake_.wait(lock, has_work);
    } else if (!wake_.wait_for(lock, kRetry, has_work)) {
      work_.source_changed = true;  // what was not settled, or failed, is looked at again
    }
    if (stopping_) return;
    Work work = std::exchange(work_, {});
    lock.unlock();
    Process(std::move(work));
    lock.lock();
  }
}

void LocalServices::Process(Work work) {
  std::set<ServiceName> touched;
  TakePods(work, touched);
  const auto snapshot = source_.Snapshot();
  if (work.source_changed && snapshot->complete) {
    TakeNews(snapshot, touched);
  }
  RecordServices();
  for (const ServiceName& name : touched) RebuildSlices(name);
  Flush();
  if (!started_) StartDriverWhenSettled(*snapshot);
}

// A pod matters to the services that select it, or did.
void LocalServices::TakePods(Work& work, std::set<ServiceName>& touched) {
  for (auto& [key, pod] : work.pods) {
    PodPtr& known = pods_[key];
    for (auto it = services_.lower_bound({key.first, ""});
         it != services_.end() && it->first.object_namespace == key.first; ++it) {
      const corev1::Service& service = *it->second.service;
      const bool before = known != nullptr && Selects(service, *known);
      if (before || (pod != nullptr && Selects(service, *pod))) touched.insert(it->first);
    }
    known = std::move(pod);
    if (known == nullptr) pods_.erase(key);
  }
}

// New versions of what was there, and nobody who lacks something that he may get now: a change
// then costs what changed.
void LocalServices::TakeNews(const std::shared_ptr<const PodSnapshot>& snapshot,
                             std::set<ServiceName>& touched) {
  std::optional<RenewedObjects> renewed;
  if (taken_ != nullptr && !failed_ && !lacking_) renewed = FindRenewed(*taken_, *snapshot);
  failed_ = false;
  if (renewed) {
    SetServices(std::move(renewed->services), touched);
    for (const DesiredSlice* slice : renewed->slices) SetWrittenSlice(slice->object);
  } else {
    TakeSnapshot(*snapshot, touched);
  }
  taken_ = snapshot;
}

void LocalServices::TakeSnapshot(const PodSnapshot& snapshot, std::set<ServiceName>& touched) {
  lacking_ = false;
  std::vector<const DesiredService*> news;
  std::set<ServiceName> wanted;
  for (const DesiredService& service : snapshot.services) {
    ServiceName name = NameOf(*service.object);
    if (!IsSettled(name, service)) news.push_back(&service);
    wanted.insert(std::move(name));
  }
  // What goes first makes room for what comes.
  std::set<ServiceName> gone;
  for (const ServiceName& name : book_.Names()) {
    if (!wanted.contains(name)) gone.insert(name);
  }
  for (const auto& [name, known] : services_) {
    if (!wanted.contains(name)) gone.insert(name);
  }
  for (const ServiceName& name : gone) RemoveService(name);
  SetServices(std::move(news), touched);
  SetWrittenSlices(snapshot);
}

void LocalServices::SetServices(std::vector<const DesiredService*> news,
                                std::set<ServiceName>& touched) {
  std::stable_sort(news.begin(), news.end(), [&](const auto* a, const auto* b) {
    return Rank(*a->object, book_) < Rank(*b->object, book_);
  });
  for (const DesiredService* service : news) {
    SetService(*service);
    touched.insert(NameOf(*service->object));
  }
}

// Nothing new of a service that has what it wants. One that lacks something may get it now.
bool LocalServices::IsSettled(const ServiceName& name, const DesiredService& desired) const {
  const auto found = services_.find(name);
  return found != services_.end() && found->second.desired == desired.object &&
         found->second.troubles.empty();
}

bool LocalServices::IsSettled(const PodSnapshot& snapshot) const {
  if (!snapshot.complete) return false;
  return std::all_of(snapshot.pods.begin(), snapshot.pods.end(), [this](const DesiredPod& desired) {
    const auto& meta = desired.pod->metadata();
    const auto found = pods_.find({meta.namespace_(), meta.name()});
    return found != pods_.end() && !found->second->status().phase().empty();
  });
}

void LocalServices::StartDriverWhenSettled(const PodSnapshot& snapshot) {
  if (!IsSettled(snapshot) && Steady::now() < deadline_) return;
  started_ = driver_.Start().has_value();
}

}  // namespace holdfast::agent
