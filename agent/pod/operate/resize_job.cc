// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/resize_job.h"

#include <map>
#include <utility>
#include <vector>

#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/spec/resources.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

OperationEnd ResizeJob::CarryOut() {
  const auto node = services_.node();
  std::vector<ResizedContainer> containers;
  std::map<ContainerId, Amounts> resized;
  for (const SpecContainer& c : ContainersOf(*input_.pod)) {
    const auto running = input_.running.find(c.name());
    if (running == input_.running.end()) continue;
    containers.push_back(
        {running->second, c.name(), ContainerResources(*input_.pod, *c.spec, *node)});
    resized[running->second] = EffectiveAmounts(*input_.pod, *c.spec);
  }
  auto done = services_.runtime.Resize(PodUid(input_.pod->metadata().uid()),
                                       PodResources(*input_.pod, node->memory), containers);
  HOLDFAST_PAUSE_POINT("agent.pod.resized");
  OperationEnd end = End(std::move(done));
  if (end.how == OperationEnd::How::kDone) {
    end.resized = std::move(resized);
    end.resized_pod = PodAmounts(*input_.pod);
  }
  return end;
}

}  // namespace holdfast::agent
