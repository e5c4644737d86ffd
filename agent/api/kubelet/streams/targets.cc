// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/targets.h"

#include "agent/kube/containers_of.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

bool HasTerminal(const k8s::io::api::core::v1::Pod& pod, const std::string& name) {
  bool tty = false;
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList, const auto& container) {
    if (container.name() == name) tty = container.tty();
  });
  return tty;
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
    request.tty = HasTerminal(*pod, request.container);
    if (request.tty && request.error) return Refused(500, "tty and stderr cannot both be true");
  }
  return CommandTarget{std::move(request), *id};
}

std::expected<ForwardTarget, Refusal> FindForwardTarget(const PodView& pods,
                                                        const StreamRequest& request) {
  const PodPtr pod = pods.FindPod(request.pod_namespace, request.pod);
  if (!pod) return Refused(404, "pod does not exist");
  if (!request.uid.empty() && request.uid != pod->metadata().uid()) {
    return Refused(404, "pod not found");
  }
  return ForwardTarget{PodUid(pod->metadata().uid()),
                       StrCat(pod->metadata().name(), "_", pod->metadata().namespace_()),
                       pod->spec().hostnetwork()};
}

}  // namespace holdfast::agent::streams
