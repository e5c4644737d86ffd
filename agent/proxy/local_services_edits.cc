// SPDX-License-Identifier: Apache-2.0
// What becomes of one Service or slice: the book's judgement, the row, and the edits of the table
// that the driver gets together.
#include <utility>

#include "agent/kube/times.h"
#include "agent/proxy/local_endpoints.h"
#include "agent/proxy/local_services.h"
#include "agent/proxy/service_fields.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;

constexpr char kTriggerAnnotation[] = "endpoints.kubernetes.io/last-change-trigger-time";

}  // namespace

// The book decides at once, so that nobody else gets the same; what is new waits for the record.
void LocalServices::SetService(const DesiredService& desired) {
  auto service = std::make_shared<corev1::Service>(*desired.object);
  const ServiceName name = NameOf(*service);
  Completed completed{desired.object, service, book_.Complete(service.get())};
  if (book_.IsRecorded(name)) {
    UseService(name, std::move(completed));
  } else {
    unrecorded_[name] = std::move(completed);
  }
}

void LocalServices::UseService(const ServiceName& name, Completed completed) {
  edits_.push_back([row = ToModel(*completed.service)](auto& tracker) { tracker.SetService(row); });
  TellLeftOut(name, *completed.desired);
  lacking_ = lacking_ || !completed.troubles.empty();
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    Known& known = services_[name];
    known.desired = completed.desired;
    known.service = completed.service;
    news = known.troubles != completed.troubles;
    known.troubles = completed.troubles;
  }
  if (news) Tell(*completed.service, completed.troubles);
}

// Once for each version of it.
void LocalServices::TellLeftOut(const ServiceName& name, const corev1::Service& desired) {
  const auto known = services_.find(name);
  if (known != services_.end() && known->second.desired.get() == &desired) return;
  std::vector<ServiceTrouble> troubles;
  for (std::string& text : LeftOut(desired)) {
    troubles.push_back({kube::kFieldNotHonoured, std::move(text)});
  }
  Tell(desired, troubles);
}

// One sync for all that is new. Where it fails, who had addresses goes on as it is, and who had
// none is shown without.
void LocalServices::RecordServices() {
  const auto synced = book_.Sync();
  const std::string error = synced ? std::string() : synced.error().message();
  if (!synced) failed_ = true;
  if (!error.empty() && error != record_error_ && callbacks_.log) callbacks_.log(error);
  record_error_ = error;
  for (auto& [name, completed] : std::exchange(unrecorded_, {})) {
    if (synced) {
      UseService(name, std::move(completed));
    } else if (!services_.contains(name) || !services_[name].troubles.empty()) {
      auto bare = std::make_shared<corev1::Service>(*completed.service);
      bare->mutable_spec()->clear_clusterip();
      bare->mutable_spec()->clear_clusterips();
      for (auto& port : *bare->mutable_spec()->mutable_ports()) port.clear_nodeport();
      bare->mutable_spec()->clear_healthchecknodeport();
      UseService(name, {completed.desired, std::move(bare), {{"ClusterIPNotAllocated", error}}});
    }
  }
}

void LocalServices::RemoveService(const ServiceName& name) {
  book_.Forget(name);
  unrecorded_.erase(name);
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

void LocalServices::SetWrittenSlice(const SlicePtr& slice) {
  Push(slice);
  const std::lock_guard lock(mutex_);
  written_slices_[{slice->metadata().namespace_(), slice->metadata().name()}] = slice;
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
  for (SlicePtr& slice : LocalSlices(*found->second.service, pods, Node())) {
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
  if (auto row = ToModel(*slice, Node(), numbers_)) {
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

}  // namespace holdfast::agent
