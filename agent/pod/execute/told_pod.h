// SPDX-License-Identifier: Apache-2.0
// ToldPod: what others have heard of a pod, so that only what is new is told: the node's own APIs,
// the API server, events, metrics. One thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/services.h"
#include "agent/report/pod_reporter.h"

namespace holdfast::agent {

class ToldPod {
 public:
  explicit ToldPod(PodServices& services) : services_(services) {}

  // Here, as it is now; `deletion`: how it ends when it was deleted.
  void Show(const corev1::Pod& pod, const corev1::PodStatus& status,
            const Ending* deletion = nullptr) const;
  // The API server, once for each change; its own part of it is compared by the reporter.
  void Report(std::shared_ptr<const corev1::Pod> pod, const corev1::PodStatus& status,
              bool released, PodOrigin origin);
  // What of it is not honoured: once.
  void TellLeftOut(const corev1::Pod& pod, PodOrigin origin);
  // That it was not remembered: once for each reason, since a full disk stays full for a while;
  // again when it was in between.
  void TellUnsaved(const corev1::Pod& pod, const std::string& why);
  void NoteSaved() { unsaved_.clear(); }
  // How long it takes from the first word of a pod until it runs: once.
  void NoteHeard() { heard_ = services_.clock.Boot(); }
  void NotePhase(const std::string& phase);

 private:
  PodServices& services_;
  PodReport reported_;             // the newest
  std::string unsaved_;            // the reason that was told last
  std::optional<BootTime> heard_;  // of a pod that is new to this agent, until it runs
  bool told_left_out_ = false;
};

}  // namespace holdfast::agent
