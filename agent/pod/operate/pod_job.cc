// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pod_job.h"

#include <utility>

#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/pod_metrics.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

OperationEnd Cancelled() {
  OperationEnd end;
  end.how = OperationEnd::How::kCancelled;
  return end;
}

}  // namespace

PodJob::PodJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled)
    : services_(services),
      input_(std::move(input)),
      paths_(services.state.Paths(*input_.pod)),
      cancelled_(cancelled) {}

OperationEnd PodJob::Run() {
  if (GivesUp()) return Cancelled();
  const BootTime begun = services_.clock.Boot();
  OperationEnd end = RunAction();
  if (services_.metrics != nullptr) {
    services_.metrics->NoteOperation(*input_.pod, input_.action, end,
                                     services_.clock.Boot() - begun);
  }
  return end;
}

OperationEnd PodJob::RunAction() {
  switch (input_.action.kind) {
    case Action::Kind::kEnsureVolumes: {
      OperationEnd end = EnsureAllVolumes();
      // What was given up on the way is no failure.
      return GivesUp() ? Cancelled() : end;
    }
    case Action::Kind::kEnsureSandbox: {
      auto ips = MakeSandbox();
      if (gave_up_) return Cancelled();
      if (!ips) return End(std::move(ips.error()).Wrap("Failed to create pod sandbox"));
      OperationEnd end = End({});
      end.pod_ips = std::move(*ips);
      return end;
    }
    case Action::Kind::kResize:
      return Resize();
    case Action::Kind::kPull:
      return Pull();
    case Action::Kind::kStart:
      return Start();
    case Action::Kind::kPostStart:
    case Action::Kind::kPreStop:
      return End(Internal("a hook is not carried out here"));
    case Action::Kind::kSignal:
      return End(Signal());
    case Action::Kind::kKill:
      return End(Kill());
    case Action::Kind::kRemove:
      return End(RemoveContainer());
    case Action::Kind::kRemoveSandbox:
      return End(RemovePodSandbox());
    case Action::Kind::kReleaseVolumes:
      return End(Release());
    case Action::Kind::kCleanUp:
      return End(CleanUp());
  }
  return Cancelled();
}

bool PodJob::GivesUp() {
  gave_up_ = cancelled_;
  return gave_up_;
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

}  // namespace holdfast::agent
