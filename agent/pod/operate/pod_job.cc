// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pod_job.h"

#include <utility>

#include "agent/objects/no_inputs.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/pod/operate/pull_job.h"
#include "agent/pod/operate/resize_job.h"
#include "agent/pod/operate/sandbox_job.h"
#include "agent/pod/operate/start_job.h"
#include "agent/pod/operate/take_down_job.h"
#include "agent/pod/operate/volumes_job.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
PodJob::PodJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled)
    : services_(services),
      input_(std::move(input)),
      paths_(services.state.Paths(*input_.pod)),
      cancelled_(cancelled) {}

OperationEnd PodJob::Run() {
  if (GivesUp()) return Cancelled();
  const BootTime begun = services_.clock.Boot();
  OperationEnd end = CarryOut();
  if (services_.metrics != nullptr) {
    services_.metrics->NoteOperation(*input_.pod, input_.action, end,
                                     services_.clock.Boot() - begun);
  }
  return end;
}

bool PodJob::GivesUp() {
  gave_up_ = cancelled_;
  return gave_up_;
}

OperationEnd PodJob::Cancelled() {
  OperationEnd end;
  end.how = OperationEnd::How::kCancelled;
  return end;
}

OperationEnd PodJob::End(Result<void> result) {
  OperationEnd end;
  end.events = std::move(events_);
  if (result) return end;
  end.how = OperationEnd::How::kFailed;
  end.error = result.error().message();
  Log(StrCat(ToString(input_.action), ": ", end.error, ", it is tried again"));
  return end;
}

void PodJob::Log(const std::string& text) const {
  services_.log(StrCat("pod ", PodLabel(*input_.pod), ": ", text));
}

const PodInputs& PodJob::Inputs() const {
  static const NoInputs kNone;
  return input_.inputs != nullptr ? *input_.inputs : kNone;
}

bool PodJob::HasApiInputs() const {
  return input_.inputs != nullptr && input_.inputs == services_.inputs;
}

std::unique_ptr<PodJob> MakePodJob(PodServices& services, PodJobInput input,
                                   const std::atomic<bool>& cancelled) {
  switch (input.action.kind) {
    case Action::Kind::kEnsureVolumes:
      return std::make_unique<VolumesJob>(services, std::move(input), cancelled);
    case Action::Kind::kEnsureSandbox:
      return std::make_unique<SandboxJob>(services, std::move(input), cancelled);
    case Action::Kind::kResize:
      return std::make_unique<ResizeJob>(services, std::move(input), cancelled);
    case Action::Kind::kPull:
      return std::make_unique<PullJob>(services, std::move(input), cancelled);
    case Action::Kind::kStart:
      return std::make_unique<StartJob>(services, std::move(input), cancelled);
    case Action::Kind::kPostStart:
    case Action::Kind::kPreStop:
    case Action::Kind::kSignal:
    case Action::Kind::kKill:
    case Action::Kind::kRemove:
    case Action::Kind::kRemoveSandbox:
    case Action::Kind::kReleaseVolumes:
    case Action::Kind::kCleanUp:
      break;
  }
  return std::make_unique<TakeDownJob>(services, std::move(input), cancelled);
}

}  // namespace holdfast::agent
