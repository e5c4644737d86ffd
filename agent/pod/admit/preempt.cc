// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/preempt.h"

#include <algorithm>
#include <map>
#include <utility>

namespace holdfast::agent {
namespace {

using model::QosClass;
using Needs = std::vector<Shortfall>;
using Candidates = std::vector<Candidate>;

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
std::optional<Candidates> Nearest(Candidates pods, Needs needs) {
  Candidates chosen;
  while (!needs.empty()) {
    if (pods.empty()) return std::nullopt;
    const auto best = std::ranges::min_element(pods, [&](const Candidate& a, const Candidate& b) {
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

Candidates Joined(Candidates a, const Candidates& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

bool MayPreempt(const PodUse& preemptor, const PodUse& preemptee) {
  if (preemptor.critical && !preemptee.critical) return true;
  return preemptor.priority && preemptee.priority && *preemptor.priority > *preemptee.priority;
}

std::vector<Shortfall> Without(const Needs& lacking, const Candidates& gone) {
  Needs left;
  for (const Shortfall& need : lacking) {
    int64_t amount = need.amount;
    for (const Candidate& pod : gone) {
      amount -= std::min(amount, RequestOf(*pod.use, need.resource));
    }
    if (amount > 0) left.push_back({need.resource, amount});
  }
  return left;
}

std::optional<std::vector<std::string>> ChooseVictims(const Candidates& candidates,
                                                      const Needs& lacking) {
  std::map<QosClass, Candidates> pods;
  for (const Candidate& candidate : candidates) pods[candidate.use->qos].push_back(candidate);
  const Candidates& best_effort = pods[QosClass::kBestEffort];
  const Candidates& burstable = pods[QosClass::kBurstable];
  const auto guaranteed =
      Nearest(pods[QosClass::kGuaranteed], Without(lacking, Joined(best_effort, burstable)));
  if (!guaranteed) return std::nullopt;
  const auto middle = Nearest(burstable, Without(lacking, Joined(best_effort, *guaranteed)));
  if (!middle) return std::nullopt;
  const auto least = Nearest(best_effort, Without(lacking, Joined(*middle, *guaranteed)));
  if (!least) return std::nullopt;
  std::vector<std::string> victims;
  for (const Candidates* some : {&*least, &*middle, &*guaranteed}) {
    for (const Candidate& pod : *some) victims.push_back(pod.uid);
  }
  return victims;
}

}  // namespace holdfast::agent
