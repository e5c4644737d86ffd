// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/unknown_pods.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent {

// Another owner's sandbox is not ours to judge.
Result<void> UnknownPods::Find(const std::function<bool(const PodUid&)>& has_record) {
  ASSIGN_OR_RETURN(const auto containers, services_.runtime.ListContainers());
  ASSIGN_OR_RETURN(const auto sandboxes, services_.runtime.ListSandboxes());
  for (const ObservedContainer& c : containers) found_.insert(c.pod_uid);
  for (const ObservedSandbox& s : sandboxes) found_.insert(s.uid);
  for (const ObservedSandbox& s : sandboxes) {
    if (!s.owner.empty()) found_.erase(s.uid);
  }
  std::erase_if(found_, has_record);
  return {};
}

void UnknownPods::BeginRemoval(const PodUid& uid) {
  found_.erase(uid);
  removed_.insert(uid);
}

void UnknownPods::Remove(const PodUid& uid) {
  services_.log(
      StrCat("pod ", uid.value, ": no record of it can be read, removing its containers"));
  const auto report = [&](const Result<void>& result) {
    if (!result) services_.log(StrCat(result.error().message(), ", ignoring"));
  };
  for (const ObservedContainer& c : services_.runtime.Observe(uid).containers) {
    if (!c.exit) report(services_.runtime.Kill(c.id));
  }
  report(services_.runtime.RemoveSandbox(uid));
  report(services_.network.Teardown(uid));
}

}  // namespace holdfast::agent
