// SPDX-License-Identifier: Apache-2.0
// PodJob: pulling an image that a container needs.
#include <utility>

#include "agent/images/pod_logins.h"
#include "agent/pod/operate/pod_job.h"
#include "holdfast/base/strings.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

OperationEnd PodJob::Pull() {
  PodLogins logins = LoginsOfPod(*input_.pod, input_.inputs);
  if (auto note = MissingSecretsNote(logins)) events_.push_back(std::move(*note));
  logins.Add(services_.node_logins ? services_.node_logins() : Keyring());
  PullRequest request;
  request.reference = input_.action.image;
  request.logins = [&](const std::string& repository) { return logins.keyring.Find(repository); };
  auto pulled = services_.puller->Pull(request, cancelled_);
  OperationEnd end;
  end.events = std::move(events_);
  if (pulled) {
    end.pulled = PulledFact{pulled->pulling, services_.clock.Boot() - input_.asked,
                            pulled->image.size_bytes};
  } else if (GivesUp()) {
    end.how = OperationEnd::How::kCancelled;
  } else {
    end.how = OperationEnd::How::kFailed;
    end.error = pulled.error().message();
    Log(StrCat("pull of ", request.reference, ": ", end.error));
  }
  return end;
}

}  // namespace holdfast::agent
