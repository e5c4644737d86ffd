// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_services.h"

#include <algorithm>

#include "agent/proxy/local_endpoints.h"
#include "agent/proxy/service_fields.h"
#include "agent/proxy/service_variables.h"
#include "agent/source/snapshot_difference.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kWriteRetry{1};

}  // namespace

LocalServices::LocalServices(PodSource& source, PodView& pods, ServiceAllocations book,
                             ServiceDriver& driver, ServiceCatalog& catalog,
                             LocalServicesOptions options, ServiceCallbacks callbacks)
    : source_(source),
      driver_(driver),
      catalog_(catalog),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      deadline_(Steady::now() + options_.patience),
      completion_(std::move(book)),
      feed_(Node()) {
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

Result<std::unique_ptr<LocalServices>> LocalServices::Start(
    PodSource& source, PodView& pods, ServiceAllocations book, ServiceDriver& driver,
    ServiceCatalog& catalog, LocalServicesOptions options, ServiceCallbacks callbacks) {
  std::unique_ptr<LocalServices> services(new LocalServices(
      source, pods, std::move(book), driver, catalog, std::move(options), std::move(callbacks)));
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

void LocalServices::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto has_work = [this] {
      return stopping_ || work_.source_changed || !work_.pods.empty();
    };
    if (started_ && !failed_) {
      wake_.wait(lock, has_work);
    } else if (!wake_.wait_for(lock, kWriteRetry, has_work)) {
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
  UseRecordedServices();
  if (taken_ != nullptr && taken_->generation > shown_) Shown(taken_->generation);
  for (const ServiceName& name : touched) RebuildSlices(name);
  feed_.Flush(driver_);
  if (!started_) StartDriverWhenSettled(*snapshot);
}

// Pods wait for what their environments have of it.
void LocalServices::Shown(uint64_t generation) {
  shown_ = generation;
  const std::lock_guard lock(telling_);
  if (listener_) listener_();
}

std::optional<std::vector<std::string>> LocalServices::Variables(const std::string& of_namespace,
                                                                 bool links,
                                                                 uint64_t of_generation) const {
  const uint64_t shown = shown_;
  if (shown == 0 || shown < of_generation) return std::nullopt;
  return VariablesIn(catalog_, of_namespace, links);
}

void LocalServices::SetListener(std::function<void()> shown) {
  const std::lock_guard lock(telling_);
  listener_ = std::move(shown);
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
  if (taken_ != nullptr && !failed_ && !completion_.IsLacking()) {
    renewed = FindRenewed(*taken_, *snapshot);
  }
  failed_ = false;
  if (renewed) {
    CompleteServices(std::move(renewed->services), touched);
    for (const DesiredSlice* slice : renewed->slices) SetWrittenSlice(slice->object);
  } else {
    TakeSnapshot(*snapshot, touched);
  }
  taken_ = snapshot;
}

void LocalServices::TakeSnapshot(const PodSnapshot& snapshot, std::set<ServiceName>& touched) {
  std::vector<const DesiredService*> news;
  std::set<ServiceName> gone = completion_.Names();
  for (const DesiredService& service : snapshot.services) {
    if (!completion_.IsSettled(service)) news.push_back(&service);
    gone.erase(NameOf(*service.object));
  }
  // What goes first makes room for what comes.
  for (const ServiceName& name : gone) RemoveService(name);
  CompleteServices(std::move(news), touched);
  SetWrittenSlices(snapshot);
}

void LocalServices::CompleteServices(std::vector<const DesiredService*> news,
                                     std::set<ServiceName>& touched) {
  for (const DesiredService* service : news) touched.insert(NameOf(*service->object));
  completion_.Complete(std::move(news));
}

void LocalServices::UseRecordedServices() {
  LocalCompletion::Recorded recorded = completion_.Record();
  if (!recorded.error.empty()) failed_ = true;
  if (!recorded.error.empty() && recorded.error != record_error_ && callbacks_.log) {
    callbacks_.log(recorded.error);
  }
  record_error_ = std::move(recorded.error);
  for (const auto& [name, completed] : recorded.usable) UseService(name, completed);
}

void LocalServices::UseService(const ServiceName& name,
                               const LocalCompletion::Completed& completed) {
  Known& known = services_[name];
  if (known.desired != completed.desired) {  // once for each version of it
    std::vector<ServiceTrouble> ignored;
    for (std::string& text : LeftOut(*completed.desired)) {
      ignored.push_back({kube::kFieldNotHonoured, std::move(text)});
    }
    Tell(*completed.desired, ignored);
  }
  known.desired = completed.desired;
  known.service = completed.service;
  feed_.SetService(*completed.service);
  const bool news = catalog_.SetService(name, completed.service, completed.troubles);
  if (news) Tell(*completed.service, completed.troubles);
}

void LocalServices::Tell(const corev1::Service& service,
                         const std::vector<ServiceTrouble>& troubles) {
  if (!callbacks_.trouble) return;
  for (const ServiceTrouble& trouble : troubles) callbacks_.trouble(service, trouble);
}

void LocalServices::RemoveService(const ServiceName& name) {
  completion_.Forget(name);
  const auto found = services_.find(name);
  if (found == services_.end()) return;
  feed_.RemoveService(name);
  catalog_.RemoveService(name);
  for (const auto& [slice_name, slice] : found->second.slices) {
    RemoveSlice({name.object_namespace, slice_name});
  }
  services_.erase(found);
}

void LocalServices::SetWrittenSlice(const SlicePtr& slice) {
  SetSlice(slice);
  written_slices_[{slice->metadata().namespace_(), slice->metadata().name()}] = slice;
}

void LocalServices::SetWrittenSlices(const PodSnapshot& snapshot) {
  std::map<PodKey, SlicePtr> fresh;
  for (const DesiredSlice& slice : snapshot.slices) {
    const auto& meta = slice.object->metadata();
    fresh[{meta.namespace_(), meta.name()}] = slice.object;
  }
  for (const auto& [key, slice] : written_slices_) {
    if (!fresh.contains(key)) RemoveSlice(key);
  }
  for (const auto& [key, slice] : fresh) {
    const auto known = written_slices_.find(key);
    if (known == written_slices_.end() || known->second != slice) SetSlice(slice);
  }
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
  for (SlicePtr& slice : LocalSlices(*found->second.service, pods, Node())) {
    SetSlice(slice);
    fresh[slice->metadata().name()] = std::move(slice);
  }
  for (const auto& [slice_name, slice] : found->second.slices) {
    if (!fresh.contains(slice_name)) RemoveSlice({name.object_namespace, slice_name});
  }
  found->second.slices = std::move(fresh);
}

void LocalServices::SetSlice(const SlicePtr& slice) {
  feed_.SetSlice(*slice);
  catalog_.SetSlice(slice);
}

void LocalServices::RemoveSlice(const PodKey& key) {
  feed_.RemoveSlice(key.first, key.second);
  catalog_.RemoveSlice(key);
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
  if (started_) feed_.Began();
}

}  // namespace holdfast::agent
