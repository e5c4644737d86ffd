// SPDX-License-Identifier: Apache-2.0
#include "agent/clean_up.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include "agent/proxy/service_proxy.h"
#include "agent/root_lock.h"
#include "agent/runtime_options.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/written_volumes.h"
#include "holdfast/base/strings.h"
#include "netproxy/podnet/pod_net.h"
#include "runtime/containers/options.h"

namespace holdfast::agent {

Result<void> CleanUp(const AgentConfig& config) {
  ASSIGN_OR_RETURN(const UniqueFd lock, LockRoot(config.instance.root_dir));
  ASSIGN_OR_RETURN(const runtime::RuntimeOptions options, OptionsOfRuntime(config));
  const auto cgroups = runtime::RemoveNodeParts(options);
  if (!cgroups && cgroups.error().sys_errno() == EBUSY) {
    return Conflict(StrCat("a pod is left: ", cgroups.error().message()));
  }
  ASSIGN_OR_RETURN(const auto network, netproxy::PodNet::Open(config.instance));
  RETURN_IF_ERROR(WithContext(network->RemoveNodeParts(), "pod network"));
  RETURN_IF_ERROR(
      WithContext(ServiceProxy::RemoveRules(config.instance, config.proxy), "services"));
  RETURN_IF_ERROR(WithContext(RemovePodFilesRoot(config.instance), "files of pods"));
  RETURN_IF_ERROR(WithContext(RemoveWrittenVolumes(config.instance), "volumes"));
  return WithContext(cgroups, "cgroups");
}

Result<void> CleanUpKubeProxy(const AgentConfig& config) {
  ASSIGN_OR_RETURN(const UniqueFd lock, LockRoot(config.instance.root_dir));
  ASSIGN_OR_RETURN(const auto removed,
                   ServiceProxy::RemoveKubeProxyRules(config.instance, config.proxy.ipvs));
  for (const std::string& what : removed) std::printf("removed: %s\n", what.c_str());
  return {};
}

}  // namespace holdfast::agent
