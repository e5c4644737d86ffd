// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/told_pod.h"

#include <utility>

#include "agent/kube/message_bytes.h"
#include "agent/pod/admit/left_out.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

void ToldPod::Show(const corev1::Pod& pod, const corev1::PodStatus& status,
                   const Ending* deletion) const {
  corev1::Pod shown = pod;
  *shown.mutable_status() = status;
  auto* meta = shown.mutable_metadata();
  if (!meta->has_creationtimestamp()) *meta->mutable_creationtimestamp() = status.starttime();
  if (deletion != nullptr) {
    const WallTime end = deletion->since + deletion->grace;
    meta->mutable_deletiontimestamp()->set_seconds(
        std::chrono::floor<std::chrono::seconds>(end.since_epoch).count());
    meta->set_deletiongraceperiodseconds(deletion->grace.count());
  }
  services_.view.Put(std::move(shown));
}

void ToldPod::Report(std::shared_ptr<const corev1::Pod> pod, const corev1::PodStatus& status,
                     bool released, PodOrigin origin) {
  if (services_.reporter == nullptr) return;
  if (reported_.pod == pod && reported_.released == released &&
      kube::SameMessage(*reported_.status, status)) {
    return;
  }
  reported_ = {std::move(pod), std::make_shared<const corev1::PodStatus>(status), released, origin};
  services_.reporter->Report(reported_);
}

void ToldPod::TellLeftOut(const corev1::Pod& pod, PodOrigin origin) {
  if (std::exchange(told_left_out_, true)) return;
  services_.view.AddEvents(pod, LeftOut(pod, origin, services_.node()->selinux.has_value()));
}

void ToldPod::TellUnsaved(const corev1::Pod& pod, const std::string& why) {
  if (std::exchange(unsaved_, why) == why) return;
  services_.log(StrCat("pod ", PodLabel(pod), ": ", why, ", trying again every 10 s"));
  services_.view.AddEvents(
      pod, {EventNote{true, "FailedSync", StrCat("error saving the state of the pod: ", why), "",
                      false}});
}

void ToldPod::NotePhase(const std::string& phase) {
  if (!heard_ || phase == "Pending") return;
  if (services_.metrics != nullptr && phase == "Running") {
    services_.metrics->NotePodRunning(services_.clock.Boot() - *heard_);
  }
  heard_.reset();
}

}  // namespace holdfast::agent
