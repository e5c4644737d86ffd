// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_place.h"

#include "agent/pod/admit/node_admission.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/operate/pod_metrics.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

std::shared_ptr<const corev1::Pod> AsGiven(const std::shared_ptr<const corev1::Pod>& pod,
                                           const PodMemory& memory) {
  return memory.allocation ? WithAllocation(pod, *memory.allocation) : pod;
}

}  // namespace

PodPlace::PodPlace(NodeAdmission* admission, PodMetrics* metrics,
                   std::shared_ptr<const corev1::Pod> pod, const PodMemory& memory)
    : admission_(admission),
      metrics_(metrics),
      uid_(pod->metadata().uid()),
      pod_(std::move(pod)),
      allocated_(AsGiven(pod_, memory)) {
  const bool leaving = memory.ending && memory.ending->why == Ending::Why::kDeleted;
  const bool taken = memory.admission && memory.admission->admitted();
  if (admission_ != nullptr && taken && !leaving && memory.terminal_phase.empty()) {
    admission_->Adopt(*allocated_, memory.ending.has_value());
  }
}

void PodPlace::Ensure(PodMemory& memory) const {
  if (!memory.admission) {
    const bool asks = admission_ != nullptr && !EndedElsewhere(memory.origin, *pod_);
    memory.admission = asks ? admission_->Admit(*pod_) : Admission{};
  }
  if (!memory.allocation && memory.admission->admitted()) memory.allocation = AllocationOf(*pod_);
}

void PodPlace::Ask(std::shared_ptr<const corev1::Pod> pod, const PodMemory& memory, bool ends) {
  pod_ = std::move(pod);
  allocated_ = AsGiven(pod_, memory);
  verdict_.reset();
  const bool waited = memory.resize_pending.has_value();
  if (ends || !memory.allocation || (allocated_ == pod_ && !waited)) return;
  const ResizeWish resize{pod_, allocated_, waited ? memory.resize_pending->since : WallTime{}};
  ResizeVerdict verdict;
  if (admission_ != nullptr) verdict = admission_->Resize(resize);
  HOLDFAST_PAUSE_POINT("agent.pod.resize_judged");
  if (allocated_ == pod_) return;  // it is what it has, again
  Count(verdict, memory.resize_pending);
  if (verdict.how == ResizeVerdict::How::kGiven) allocated_ = pod_;
  verdict_ = std::move(verdict);
}

// One that is infeasible is given again in each turn.
void PodPlace::Count(const ResizeVerdict& verdict, const std::optional<ResizeNote>& told) const {
  const bool again = verdict.how == ResizeVerdict::How::kInfeasible && told &&
                     told->reason == kInfeasible &&
                     told->generation == pod_->metadata().generation();
  if (metrics_ != nullptr && !again) metrics_->NoteResizeVerdict(verdict);
}

void PodPlace::GiveUp(const char* how) const {
  if (admission_ != nullptr) admission_->Release(uid_, how);
}

}  // namespace holdfast::agent
