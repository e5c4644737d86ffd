// SPDX-License-Identifier: Apache-2.0
// What node, pods and containers use.
#include <set>

#include "agent/api/grpc/in_namespace.h"
#include "agent/api/grpc/service.h"
#include "agent/kube/label_selector.h"
#include "agent/stats/node_stats.h"
#include "agent/view/pod_view.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::api {
namespace {

// A reading costs CPU for each container: somebody who asks without a pause gets the same one again.
constexpr std::chrono::milliseconds kStatsFreshFor{500};

void Fill(const UsageSample& sample, v1::GetStatsResponse::Usage& to) {
  to.set_time_unix_nanos(sample.at.since_epoch.count());
  to.set_cpu_nanos(sample.used.cpu.nanos);
  to.set_memory_working_set_bytes(sample.used.memory.working_set);
  to.set_swap_bytes(sample.used.memory.swap);
}

void Fill(const PodStats& pod, v1::GetStatsResponse::Pod& to) {
  to.set_namespace_(pod.pod_namespace);
  to.set_name(pod.name);
  to.set_uid(pod.uid);
  for (const ContainerStats& container : pod.containers) {
    auto& one = *to.add_containers();
    one.set_name(container.name);
    one.set_id(container.id);
    one.set_started_unix_nanos(container.started.since_epoch.count());
    Fill(container.usage, *one.mutable_usage());
  }
}

// UIDs of the pods that the request is about.
std::set<std::string> WantedPods(const v1::GetStatsRequest& request,
                                 const kube::LabelSelector& selector,
                                 const std::vector<PodPtr>& pods) {
  std::set<std::string> wanted;
  for (const PodPtr& pod : pods) {
    const auto& meta = pod->metadata();
    if (!InNamespace(request.namespace_(), meta.namespace_())) continue;
    if (selector.Matches(meta.labels())) wanted.insert(meta.uid());
  }
  return wanted;
}

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::GetStats(grpc::CallbackServerContext* context,
                                                     const v1::GetStatsRequest* request,
                                                     v1::GetStatsResponse* response) {
  return AnswerBlocking(
      context, Method::kGetStats, *response, [this, request, response]() -> Result<void> {
        ASSIGN_OR_RETURN(const kube::LabelSelector selector,
                         kube::LabelSelector::Parse(request->label_selector()));
        ASSIGN_OR_RETURN(const auto sample, core_.node.stats().Sample(kStatsFreshFor));
        const auto wanted = WantedPods(*request, selector, core_.node.pods().ListPods());
        Fill(sample->node, *response->mutable_node());
        for (const PodStats& pod : sample->pods) {
          if (wanted.contains(pod.uid)) Fill(pod, *response->add_pods());
        }
        return {};
      });
}

}  // namespace holdfast::agent::api
