// SPDX-License-Identifier: Apache-2.0
#include "agent/open_network.h"

#include <fcntl.h>

#include <utility>

#include "agent/node/node_limits.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "netproxy/routes/node_routes.h"
#include "runtime/cgroup/naming.h"

namespace holdfast::agent {
namespace {

bool HasEntries(const std::string& directory) {
  const auto names = sys::ListDirAt(AT_FDCWD, directory);
  return names && !names->empty();
}

// Rules, routes and addresses of the node; once, since what it is known by goes with it.
Result<void> RemoveBuiltIn(const AgentConfig& config) {
  model::Instance instance = config.instance;
  instance.pod_cidrs.clear();  // the plugins'; it remembers its own
  const std::string directory = instance.NetworkDir();
  if (!sys::ExistsAt(AT_FDCWD, directory)) return {};
  if (HasEntries(directory + "/pods")) {
    return Conflict(StrCat("podNetwork cni: there are pods that the built-in network attached (",
                           directory,
                           "/pods): start with podNetwork built-in and take them away first"));
  }
  ASSIGN_OR_RETURN(const auto routes,
                   netproxy::NodeRoutes::Open({.interface_prefix = instance.interface_prefix,
                                               .table_name = instance.table_name}));
  RETURN_IF_ERROR(routes->Remove());
  ASSIGN_OR_RETURN(auto network, netproxy::PodNet::Open(instance));
  RETURN_IF_ERROR(network->RemoveNodeParts());
  network.reset();
  return sys::RemoveTreeAt(AT_FDCWD, directory);
}

Result<OpenedNetwork> OpenBuiltIn(const AgentConfig& config) {
  const std::string attachments = config.pod_network.cni_cache_directory + "/attachments";
  if (HasEntries(attachments)) {
    return Conflict(StrCat("podNetwork built-in: there are pods that CNI plugins attached (",
                           attachments, "): start with podNetwork cni and take them away first"));
  }
  model::Instance instance = config.instance;
  if (!config.cluster.kubeconfig.empty()) instance.pod_cidrs.clear();  // the Node says which
  OpenedNetwork network;
  ASSIGN_OR_RETURN(network.built_in, netproxy::PodNet::Open(instance));
  RETURN_IF_ERROR(network.built_in->Ensure());
  return network;
}

Result<OpenedNetwork> OpenCni(const OpenNetworkParts& parts) {
  RETURN_IF_ERROR(WithContext(RemoveBuiltIn(parts.config), "what the built-in network left"));
  const PodNetworkConfig& config = parts.config.pod_network;
  CniOptions options;
  options.config_directory = config.cni_config_directory;
  options.plugin_directories = config.cni_plugin_directories;
  options.cache_directory = config.cni_cache_directory;
  options.netns_directory = config.cni_netns_directory;
  options.prefers_v6 = parts.prefers_v6;
  options.log = parts.log;
  options.cgroup_of = [naming = CgroupNamingOf(parts.config),
                       parent = parts.config.instance.cgroup_parent](const PodUid& uid,
                                                                     model::QosClass qos) {
    const std::string of_class = runtime::QosDirName(naming, qos);
    return StrCat(parent, "/", runtime::PodsRootName(naming), of_class.empty() ? "" : "/", of_class,
                  "/", runtime::PodDirName(naming, qos, uid));
  };
  OpenedNetwork network;
  ASSIGN_OR_RETURN(network.cni, CniNetwork::Open(std::move(options)));
  return network;
}

}  // namespace

Result<OpenedNetwork> OpenPodNetwork(const OpenNetworkParts& parts) {
  auto network = parts.config.pod_network.IsCni() ? OpenCni(parts) : OpenBuiltIn(parts.config);
  if (!network) return network;
  for (const std::string& warning : (**network).TakeWarnings()) parts.log(warning);
  return network;
}

}  // namespace holdfast::agent
