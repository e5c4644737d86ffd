// SPDX-License-Identifier: Apache-2.0
// SandboxJob: a pod's namespaces and cgroup, its network, and the files that depend on the addresses.
#pragma once

#include <string>
#include <vector>

#include "agent/pod/operate/pod_job.h"
#include "agent/pod/spec/files.h"

namespace holdfast::agent {

class SandboxJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  // The pod's addresses.
  Result<std::vector<std::string>> Make();
  Result<std::vector<std::string>> MakeNetwork(const model::SandboxSpec& spec,
                                               const ResolvConf& resolv_conf);
  void ReserveMessages();
};

}  // namespace holdfast::agent
