// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pull_job.h"

#include <optional>
#include <utility>

#include "agent/images/pod_logins.h"
#include "agent/images/pod_pulls.h"
#include "agent/images/pulled_images.h"
#include "agent/objects/object_requests.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

OperationEnd PullJob::CarryOut() {
  auto pulled = PullImage(input_.action.image);
  OperationEnd end;
  end.events = std::move(events_);
  if (pulled) {
    end.pulled = PulledFact{pulled->pulling, services_.clock.Boot() - input_.asked,
                            pulled->image.size_bytes};
  } else if (GivesUp()) {
    end.how = OperationEnd::How::kCancelled;
  } else {
    end.how = OperationEnd::How::kFailed;
    const bool away = pulled.error().code() == Code::kUnavailable;
    end.error = StrCat(away ? "RegistryUnavailable: " : "", pulled.error().message());
    Log(StrCat("pull of ", input_.action.image, ": ", end.error));
  }
  return end;
}

// As the pod and with what the node may show; who was let in with what is written down.
Result<PulledImage> PullJob::PullImage(const std::string& reference) {
  PodLogins logins = LoginsOfPod(*input_.pod, input_.inputs);
  if (auto note = MissingSecretsNote(logins)) events_.push_back(std::move(*note));
  if (services_.node_logins) {
    // Of a file it has no account.
    const TokenOwner owner = TokenOwnerOf(*input_.pod);
    const bool has_account = HasApiInputs() && !owner.service_account.empty();
    logins.Add(services_.node_logins(reference, has_account ? &owner : nullptr, cancelled_));
  }
  PullRequest request;
  request.reference = reference;
  request.logins = [&](const std::string& repository) { return logins.keyring.Find(repository); };
  std::optional<PodPulls::Shown> shown;
  if (services_.pulls != nullptr) {
    const auto& meta = input_.pod->metadata();
    shown.emplace(*services_.pulls,
                  PodPull{meta.namespace_(), meta.name(), meta.uid(), input_.action.container,
                          reference, services_.clock.Wall()});
    request.progress = [&shown](const PullProgress& progress) { shown->Update(progress); };
  }
  PulledImages* const records = services_.pulled_images;
  if (records != nullptr) RETURN_IF_ERROR(records->Begin(reference));
  auto pulled = services_.puller->Pull(request, cancelled_);
  HOLDFAST_PAUSE_POINT("agent.pod.pulled");
  if (records != nullptr && pulled) {
    records->Pulled(reference, pulled->image.id, logins.CredentialsOf(pulled->login),
                    PodUid(input_.pod->metadata().uid()));
  } else if (records != nullptr) {
    records->Failed(reference);
  }
  return pulled;
}

}  // namespace holdfast::agent
