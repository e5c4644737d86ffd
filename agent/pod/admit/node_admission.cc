// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/node_admission.h"

#include <algorithm>
#include <utility>

#include "agent/pod/admit/admit.h"
#include "agent/pod/admit/preempt.h"

namespace holdfast::agent {

NodeAdmission::NodeAdmission(std::function<std::shared_ptr<const NodeOffer>()> offer)
    : offer_(std::move(offer)) {}

NodeAdmission::Room NodeAdmission::MakeRoom(const corev1::Pod& pod) {
  PodUse use = UseOf(pod);
  if (!use.critical) return {};
  const auto node = offer_();
  const std::string& uid = pod.metadata().uid();
  const std::lock_guard lock(mutex_);
  TakeBack(uid);
  std::vector<Shortfall> lacking;
  for (const Lack& lack : LacksOf(use, *node, used_)) {
    lacking.push_back({lack.resource, lack.requested - (lack.capacity - lack.used)});
  }
  PodUse no_room = use;
  no_room.requests.clear();
  if (lacking.empty() || !agent::Admit(pod, no_room, *node, used_).admitted()) return {};
  std::vector<Preemptible> ending;
  std::vector<Preemptible> candidates;
  for (const auto& [other, others_use] : used_.pods()) {
    if (ending_.contains(other)) {
      ending.push_back({other, &others_use});
    } else if (MayPreempt(use, others_use)) {
      candidates.push_back({other, &others_use});
    }
  }
  const auto victims = ChooseVictims(candidates, Without(lacking, ending));
  if (!victims) return {};
  Room room{true, {}, lacking.front().resource};
  for (const std::string& victim : *victims) room.victims.emplace_back(victim);
  ending_.insert(victims->begin(), victims->end());
  used_.Add(uid, std::move(use));
  return room;
}

Admission NodeAdmission::Admit(const corev1::Pod& pod) {
  const auto node = offer_();
  PodUse use = UseOf(pod);
  const std::lock_guard lock(mutex_);
  TakeBack(pod.metadata().uid());
  Admission verdict = agent::Admit(pod, use, *node, used_);
  if (verdict.admitted()) used_.Add(pod.metadata().uid(), std::move(use));
  return verdict;
}

// What MakeRoom() kept for a pod that is to be judged. Another may have counted on that: it finds out when it asks again.
void NodeAdmission::TakeBack(const std::string& uid) {
  used_.Remove(uid);
  ending_.erase(uid);
}

void NodeAdmission::Adopt(const corev1::Pod& pod, bool ends) {
  PodUse use = UseOf(pod);
  const std::lock_guard lock(mutex_);
  used_.Add(pod.metadata().uid(), std::move(use));
  if (ends) ending_.insert(pod.metadata().uid());
}

ResizeVerdict NodeAdmission::Resize(const ResizeWish& wish) {
  const std::string& uid = wish.asked->metadata().uid();
  const std::lock_guard lock(mutex_);
  if (!used_.Has(uid)) return {ResizeVerdict::How::kDeferred, "the pod is to go"};
  if (wish.asked == wish.given) {
    waiting_.erase(uid);
    let_in_.erase(uid);
    used_.Add(uid, UseOf(*wish.given));  // it may have been given what it does not want any more
    return AnswerWaiting("", kPodUpdated);
  }
  const auto former = waiting_.find(uid);
  const bool same = former != waiting_.end() && former->second.asked == wish.asked;
  const auto let_in = let_in_.extract(uid);
  waiting_[uid] = wish;
  ResizeVerdict verdict = AnswerWaiting(uid, kPodUpdated);
  if (verdict.how == ResizeVerdict::How::kGiven && !wish.since.IsZero()) {
    verdict.cause = !let_in.empty() ? let_in.mapped() : same ? kPeriodicRetry : kPodUpdated;
  }
  return verdict;
}

void NodeAdmission::Release(const std::string& uid, const char* how) {
  const std::lock_guard lock(mutex_);
  TakeBack(uid);
  waiting_.erase(uid);
  let_in_.erase(uid);
  AnswerWaiting("", how);
}

void NodeAdmission::SetListener(std::function<void(const PodUid&)> given) {
  const std::lock_guard lock(mutex_);
  given_ = std::move(given);
}

// One that was given its wish and has not asked again is given it again.
ResizeVerdict NodeAdmission::AnswerOne(const std::string& uid, const ResizeWish& wish) {
  used_.Remove(uid);
  PodUse use = UseOf(*wish.asked);
  ResizeVerdict verdict = JudgeResize(wish, use, *offer_(), used_);
  const bool given = verdict.how == ResizeVerdict::How::kGiven;
  used_.Add(uid, given ? std::move(use) : UseOf(*wish.given));
  return verdict;
}

ResizeVerdict NodeAdmission::AnswerWaiting(const std::string& asking, const char* cause) {
  std::vector<std::pair<std::string, ResizeWish>> wishes(waiting_.begin(), waiting_.end());
  std::ranges::stable_sort(
      wishes, [](const auto& a, const auto& b) { return ComesBefore(a.second, b.second); });
  ResizeVerdict answer;
  for (const auto& [uid, wish] : wishes) {
    ResizeVerdict verdict = AnswerOne(uid, wish);
    if (verdict.how != ResizeVerdict::How::kDeferred) {
      waiting_.erase(uid);
      if (uid != asking) let_in_[uid] = cause;
      if (uid != asking && given_) given_(PodUid(uid));
    }
    if (uid == asking) answer = std::move(verdict);
  }
  return answer;
}

}  // namespace holdfast::agent
