// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_feed.h"

#include <chrono>

#include "agent/kube/times.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

constexpr char kTriggerAnnotation[] = "endpoints.kubernetes.io/last-change-trigger-time";

}  // namespace

void ServiceFeed::SetService(const corev1::Service& service) {
  edits_.push_back([row = ToModel(service)](auto& tracker) { tracker.SetService(row); });
}

void ServiceFeed::RemoveService(const model::ServiceName& name) {
  edits_.push_back([name](auto& tracker) { tracker.RemoveService(name); });
}

void ServiceFeed::SetSlice(const discoveryv1::EndpointSlice& slice) {
  auto row = ToModel(slice, node_, numbers_);
  if (!row) return;
  edits_.push_back([row = std::move(*row)](auto& tracker) { tracker.SetSlice(row); });
  NoteTrigger(slice);
}

void ServiceFeed::RemoveSlice(const std::string& slice_namespace, const std::string& name) {
  known_triggers_.erase({slice_namespace, name});
  edits_.push_back(
      [slice_namespace, name](auto& tracker) { tracker.RemoveSlice(slice_namespace, name); });
}

void ServiceFeed::NoteTrigger(const discoveryv1::EndpointSlice& slice) {
  const auto& meta = slice.metadata();
  const auto found = meta.annotations().find(kTriggerAnnotation);
  if (found == meta.annotations().end()) return;
  std::string& known = known_triggers_[{meta.namespace_(), meta.name()}];
  if (known == found->second) return;
  known = found->second;
  const auto time = kube::ParseRfc3339(known);
  if (!time || !began_) return;
  triggers_.push_back(kube::ToWallTime(*time));
}

void ServiceFeed::Flush(ServiceDriver& driver) {
  const auto edits = std::exchange(edits_, {});
  if (edits.empty()) return;
  driver.Edit(
      [&](netproxy::ServiceTracker& tracker) {
        for (const auto& edit : edits) edit(tracker);
      },
      std::exchange(triggers_, {}));
}

}  // namespace holdfast::agent
