// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_completion.h"

#include <algorithm>
#include <utility>

#include "agent/proxy/convert.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;

int Rank(const corev1::Service& service, const ServiceAllocations& book) {
  if (book.Knows(NameOf(service))) return 0;
  const auto& ports = service.spec().ports();
  const bool chooses = !service.spec().clusterip().empty() ||
                       service.spec().healthchecknodeport() != 0 ||
                       std::any_of(ports.begin(), ports.end(),
                                   [](const auto& port) { return port.nodeport() != 0; });
  return chooses ? 1 : 2;
}

// Without what could not be recorded.
ServicePtr Bare(const corev1::Service& service) {
  auto bare = std::make_shared<corev1::Service>(service);
  bare->mutable_spec()->clear_clusterip();
  bare->mutable_spec()->clear_clusterips();
  for (auto& port : *bare->mutable_spec()->mutable_ports()) port.clear_nodeport();
  bare->mutable_spec()->clear_healthchecknodeport();
  return bare;
}

}  // namespace

bool LocalCompletion::IsSettled(const DesiredService& desired) const {
  const ServiceName name = NameOf(*desired.object);
  const auto found = desired_.find(name);
  return found != desired_.end() && found->second == desired.object && !lacking_.contains(name);
}

std::set<ServiceName> LocalCompletion::Names() const {
  std::set<ServiceName> names;
  for (ServiceName& name : book_.Names()) names.insert(std::move(name));
  for (const auto& [name, desired] : desired_) names.insert(name);
  return names;
}

void LocalCompletion::Complete(std::vector<const DesiredService*> news) {
  std::stable_sort(news.begin(), news.end(), [&](const auto* a, const auto* b) {
    return Rank(*a->object, book_) < Rank(*b->object, book_);
  });
  for (const DesiredService* desired : news) {
    auto service = std::make_shared<corev1::Service>(*desired->object);
    std::vector<ServiceTrouble> troubles = book_.Complete(service.get());
    waiting_[NameOf(*service)] = {desired->object, service, std::move(troubles)};
  }
}

void LocalCompletion::Forget(const ServiceName& name) {
  book_.Forget(name);
  waiting_.erase(name);
  desired_.erase(name);
  lacking_.erase(name);
}

LocalCompletion::Recorded LocalCompletion::Record() {
  Recorded out;
  auto waiting = std::exchange(waiting_, {});
  std::erase_if(waiting, [&](auto& entry) {
    if (!book_.IsRecorded(entry.first)) return false;
    Use(entry.first, std::move(entry.second), out.usable);
    return true;
  });
  const auto synced = book_.Sync();
  if (!synced) out.error = synced.error().message();
  for (auto& [name, one] : waiting) {
    const bool has_its_own = desired_.contains(name) && !lacking_.contains(name);
    if (!synced && has_its_own) continue;
    if (!synced) {
      one.service = Bare(*one.service);
      one.troubles = {{"ClusterIPNotAllocated", out.error}};
    }
    Use(name, std::move(one), out.usable);
  }
  return out;
}

void LocalCompletion::Use(const ServiceName& name, Completed completed, CompletedServices& usable) {
  desired_[name] = completed.desired;
  if (completed.troubles.empty()) {
    lacking_.erase(name);
  } else {
    lacking_.insert(name);
  }
  usable[name] = std::move(completed);
}

}  // namespace holdfast::agent
