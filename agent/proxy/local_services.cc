// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_services.h"

#include <algorithm>
#include <system_error>

#include "agent/kube/times.h"
#include "agent/proxy/local_endpoints.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kRetry{1};
constexpr size_t kMany = 16;  // records are put on the disk together, instead of each by itself
constexpr char kTriggerAnnotation[] = "endpoints.kubernetes.io/last-change-trigger-time";

ServiceName NameOf(const corev1::Service& service) {
  return {service.metadata().namespace_(), service.metadata().name()};
}

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
  ServicePtr service;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = services_.find(name); found != services_.end()) {
      service = found->second.service;
    }
  }
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
  try {
    services->thread_ = std::thread([s = services.get()] { s->Run(); });
  } catch (const std::system_error& error) {
    return Error(Code::kResourceExhausted, StrCat("local services: thread: ", error.what()));
  }
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
    failed_ = false;
    TakeSnapshot(*snapshot, touched);
  }
  for (const ServiceName& name : touched) RebuildSlices(name);
  if (const auto synced = book_.Sync(); !synced) {
    failed_ = true;  // what was edited waits
    if (callbacks_.log) callbacks_.log(synced.error().message());
    return;
  }
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

void LocalServices::TakeSnapshot(const PodSnapshot& snapshot, std::set<ServiceName>& touched) {
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
  std::stable_sort(news.begin(), news.end(), [&](const auto* a, const auto* b) {
    return Rank(*a->object, book_) < Rank(*b->object, book_);
  });
  for (const DesiredService* service : news) {
    SetService(*service, news.size() < kMany);
    touched.insert(NameOf(*service->object));
  }
  SetWrittenSlices(snapshot);
}

// Nothing new of a service that has what it wants: a change costs what changed. One that lacks
// something may get it now.
bool LocalServices::IsSettled(const ServiceName& name, const DesiredService& desired) const {
  const auto found = services_.find(name);
  return found != services_.end() && found->second.desired == desired.object &&
         found->second.troubles.empty();
}

void LocalServices::SetService(const DesiredService& desired, bool durable) {
  auto service = std::make_shared<corev1::Service>(*desired.object);
  const ServiceName name = NameOf(*service);
  auto troubles = book_.Complete(service.get(), durable);
  if (!troubles) {
    failed_ = true;
    troubles = std::vector<ServiceTrouble>{{"ClusterIPNotAllocated", troubles.error().message()}};
    if (services_.contains(name)) return;  // it goes on as it is
    service->mutable_spec()->clear_clusterip();
    service->mutable_spec()->clear_clusterips();
  }
  const ServicePtr completed = std::move(service);
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    Known& known = services_[name];
    known.desired = desired.object;
    known.service = completed;
    news = known.troubles != *troubles;
    known.troubles = *troubles;
  }
  if (news) Tell(*completed, *troubles);
  edits_.push_back([row = ToModel(*completed)](auto& tracker) { tracker.SetService(row); });
}

void LocalServices::RemoveService(const ServiceName& name) {
  if (!book_.Forget(name)) {
    failed_ = true;  // its addresses stay taken until the record is gone
    return;
  }
  std::map<std::string, SlicePtr> slices;
  {
    const std::lock_guard lock(mutex_);
    const auto found = services_.find(name);
    if (found == services_.end()) return;
    slices = std::move(found->second.slices);
    services_.erase(found);
  }
  edits_.push_back([name, slices = std::move(slices)](auto& tracker) {
    tracker.RemoveService(name);
    for (const auto& [slice_name, slice] : slices) {
      tracker.RemoveSlice(name.object_namespace, slice_name);
    }
  });
}

void LocalServices::SetWrittenSlices(const PodSnapshot& snapshot) {
  std::map<PodKey, SlicePtr> fresh;
  for (const DesiredSlice& slice : snapshot.slices) {
    const auto& meta = slice.object->metadata();
    fresh[{meta.namespace_(), meta.name()}] = slice.object;
  }
  for (const auto& [key, slice] : written_slices_) {
    if (fresh.contains(key)) continue;
    known_triggers_.erase(key);
    edits_.push_back([key](auto& tracker) { tracker.RemoveSlice(key.first, key.second); });
  }
  for (const auto& [key, slice] : fresh) {
    const auto known = written_slices_.find(key);
    if (known == written_slices_.end() || known->second != slice) Push(slice);
  }
  const std::lock_guard lock(mutex_);
  written_slices_ = std::move(fresh);
}

void LocalServices::RebuildSlices(const ServiceName& name) {
  const auto found = services_.find(name);
  if (found == services_.end()) return;
  std::vector<PodPtr> pods;  // without a selector none is selected, and what there was goes
  for (auto it = pods_.lower_bound({name.object_namespace, ""});
       it != pods_.end() && it->first.first == name.object_namespace; ++it) {
    pods.push_back(it->second);
  }
  std::map<std::string, SlicePtr> fresh;
  for (SlicePtr& slice : LocalSlices(*found->second.service, pods, options_.node_name)) {
    Push(slice);
    fresh[slice->metadata().name()] = std::move(slice);
  }
  for (const auto& [slice_name, slice] : found->second.slices) {
    if (fresh.contains(slice_name)) continue;
    edits_.push_back([space = name.object_namespace, slice_name](auto& tracker) {
      tracker.RemoveSlice(space, slice_name);
    });
  }
  const std::lock_guard lock(mutex_);
  found->second.slices = std::move(fresh);
}

void LocalServices::Push(const SlicePtr& slice) {
  if (auto row = ToModel(*slice, {options_.node_name, ""}, numbers_)) {
    edits_.push_back([row = std::move(*row)](auto& tracker) { tracker.SetSlice(row); });
    NoteTrigger(slice);
  }
}

// What happened before the first rules were written says nothing about how fast they are.
void LocalServices::NoteTrigger(const SlicePtr& slice) {
  const auto& meta = slice->metadata();
  const auto found = meta.annotations().find(kTriggerAnnotation);
  if (found == meta.annotations().end()) return;
  std::string& known = known_triggers_[{meta.namespace_(), meta.name()}];
  if (known == found->second) return;
  known = found->second;
  const auto time = kube::ParseRfc3339(known);
  if (!time || !started_) return;
  triggers_.push_back(
      {std::chrono::seconds(time->seconds) + std::chrono::nanoseconds(time->nanos)});
}

void LocalServices::Flush() {
  const auto edits = std::exchange(edits_, {});
  if (edits.empty()) return;
  driver_.Edit(
      [&](netproxy::ServiceTracker& tracker) {
        for (const auto& edit : edits) edit(tracker);
      },
      std::exchange(triggers_, {}));
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

std::vector<ServicePtr> LocalServices::ListServices() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServicePtr> out;
  for (const auto& [name, known] : services_) out.push_back(known.service);
  return out;
}

std::vector<SlicePtr> LocalServices::ListSlices() const {
  const std::lock_guard lock(mutex_);
  std::map<PodKey, SlicePtr> all = written_slices_;
  for (const auto& [name, known] : services_) {
    for (const auto& [slice_name, slice] : known.slices) {
      all[{name.object_namespace, slice_name}] = slice;
    }
  }
  std::vector<SlicePtr> out;
  for (auto& [key, slice] : all) out.push_back(std::move(slice));
  return out;
}

Result<ExplainedService> LocalServices::Explain(const ServiceName& name) const {
  auto table = driver_.Explain(name);
  if (!table) return NotFound(StrCat("services \"", name.name, "\" not found"));
  ExplainedService out;
  out.table = std::move(*table);
  out.local = options_.driver.table.settings->local;
  for (const SlicePtr& slice : ListSlices()) {
    const auto& labels = slice->metadata().labels();
    const auto label = labels.find(kServiceNameLabel);
    if (slice->metadata().namespace_() == name.object_namespace && label != labels.end() &&
        label->second == name.name) {
      out.slices.push_back(slice);
    }
  }
  for (const netproxy::ExplainedPort& port : out.table.ports)
    for (const model::Frontend& f : port.row.frontends)
      if (options_.announced) out.announced[f.address] = options_.announced(f.address);
  const std::lock_guard lock(mutex_);
  out.node_addresses = node_addresses_;
  if (const auto found = services_.find(name); found != services_.end()) {
    for (const ServiceTrouble& trouble : found->second.troubles) {
      out.troubles.push_back(trouble.message);
    }
  }
  return out;
}

}  // namespace holdfast::agent
