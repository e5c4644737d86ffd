// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/targets.h"

#include "agent/kube/containers_of.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

std::string NameOf(StreamVerb verb) {
  switch (verb) {
    case StreamVerb::kExec:
      return "Exec";
    case StreamVerb::kAttach:
      return "Attach";
    case StreamVerb::kRun:
      return "Run";
    case StreamVerb::kPortForward:
      return "PortForward";
  }
  return "";
}

access::AuditEntry EntryOf(const k8s::io::api::core::v1::Pod& pod, const StreamRequest& request) {
  access::AuditEntry entry{.method = NameOf(request.verb)};
  entry.target = StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
  if (!request.container.empty()) entry.target += "/" + request.container;
  entry.target_uid = pod.metadata().uid();
  if (!request.command.empty()) entry.detail = request.command.front();
  return entry;
}

}  // namespace

std::expected<CommandTarget, Refusal> FindCommandTarget(const PodView& pods,
                                                        StreamRequest request) {
  const PodPtr pod = pods.FindPod(request.pod_namespace, request.pod);
  if (!pod) return Refused(404, "pod does not exist");
  const bool other_pod = !request.uid.empty() && request.uid != pod->metadata().uid();
  const auto id = RunningContainer(*pod, request.container);
  if (other_pod || !id)
    return Refused(500, StrCat("container not found (\"", request.container, "\")"));
  if (request.verb == StreamVerb::kAttach) {
    // It has a terminal or has none; nobody can choose any more.
    request.tty = kube::HasTerminal(*pod, request.container);
    if (request.tty && request.error) return Refused(500, "tty and stderr cannot both be true");
  }
  access::AuditEntry audit = EntryOf(*pod, request);
  return CommandTarget{std::move(request), *id, std::move(audit)};
}

std::expected<PodForward, Refusal> FindForwardTarget(const PodView& pods,
                                                     const StreamRequest& request) {
  const PodPtr pod = pods.FindPod(request.pod_namespace, request.pod);
  if (!pod) return Refused(404, "pod does not exist");
  if (!request.uid.empty() && request.uid != pod->metadata().uid()) {
    return Refused(404, "pod not found");
  }
  return PodForward{ForwardTargetOf(*pod), EntryOf(*pod, request)};
}

}  // namespace holdfast::agent::streams
