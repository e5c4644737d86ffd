// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/preempt.h"

#include <algorithm>
#include <map>
#include <utility>

namespace holdfast::agent {
namespace {

using model::QosClass;
using Needs = std::vector<Shortfall>;
using Preemptibles = std::vector<Preemptible>;

int64_t RequestOf(const PodUse& use, const std::string& resource) {
  const auto request = use.requests.find(resource);
  return request == use.requests.end() ? 0 : request->second;
}

// How much of the needs this one leaves, each need weighed alike: 0 is none.
double DistanceTo(const Needs& needs, const PodUse& use) {
  double distance = 0;
  for (const Shortfall& need : needs) {
    const int64_t left = need.amount - std::min(need.amount, RequestOf(use, need.resource));
    const double part = static_cast<double>(left) / static_cast<double>(need.amount);
    distance += part * part;
  }
  return distance;
}

bool AsksForLess(const PodUse& a, const PodUse& b) {
  const auto key = [](const PodUse& use) {
    return std::pair(RequestOf(use, "memory"), RequestOf(use, "cpu"));
  };
  return key(a) < key(b);
}

// The nearest one after the other, until nothing is lacking.
std::optional<Preemptibles> Nearest(Preemptibles pods, Needs needs) {
  Preemptibles chosen;
  while (!needs.empty()) {
    if (pods.empty()) return std::nullopt;
    const auto best =
        std::ranges::min_element(pods, [&](const Preemptible& a, const Preemptible& b) {
          const double to_a = DistanceTo(needs, *a.use);
          const double to_b = DistanceTo(needs, *b.use);
          return to_a != to_b ? to_a < to_b : AsksForLess(*a.use, *b.use);
        });
    needs = Without(needs, {*best});
    chosen.push_back(*best);
    pods.erase(best);
  }
  return chosen;
}

Preemptibles Joined(Preemptibles a, const Preemptibles& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

bool MayPreempt(const PodUse& preemptor, const PodUse& preemptee) {
  if (preemptor.critical && !preemptee.critical) return true;
  return preemptor.priority && preemptee.priority && *preemptor.priority > *preemptee.priority;
}

std::vector<Shortfall> Without(const Needs& lacking, const Preemptibles& gone) {
  Needs left;
  for (const Shortfall& need : lacking) {
    int64_t amount = need.amount;
    for (const Preemptible& pod : gone) {
      amount -= std::min(amount, RequestOf(*pod.use, need.resource));
    }
    if (amount > 0) left.push_back({need.resource, amount});
  }
  return left;
}

std::optional<std::vector<std::string>> ChooseVictims(const Preemptibles& candidates,
                                                      const Needs& lacking) {
  std::map<QosClass, Preemptibles> pods;
  for (const Preemptible& pod : candidates) pods[pod.use->qos].push_back(pod);
  const Preemptibles& best_effort = pods[QosClass::kBestEffort];
  const Preemptibles& burstable = pods[QosClass::kBurstable];
  const auto guaranteed =
      Nearest(pods[QosClass::kGuaranteed], Without(lacking, Joined(best_effort, burstable)));
  if (!guaranteed) return std::nullopt;
  const auto middle = Nearest(burstable, Without(lacking, Joined(best_effort, *guaranteed)));
  if (!middle) return std::nullopt;
  const auto least = Nearest(best_effort, Without(lacking, Joined(*middle, *guaranteed)));
  if (!least) return std::nullopt;
  std::vector<std::string> victims;
  for (const Preemptibles* some : {&*least, &*middle, &*guaranteed}) {
    for (const Preemptible& pod : *some) victims.push_back(pod.uid);
  }
  return victims;
}

}  // namespace holdfast::agent
