// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/managed_files.h"

#include "agent/volume/pod_files.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {

Result<void> WriteManagedFiles(const corev1::Pod& pod, const NodeEnvironment& node,
                               const PodPaths& paths, const std::vector<std::string>& pod_ips,
                               const ResolvConf& resolv_conf) {
  RETURN_IF_ERROR(EnsurePodFiles(paths));
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(paths.Files()));
  const auto write = [&](const char* name, const std::string& text) {
    return sys::WriteFileAtomicAt(dir.get(), name, text, 0644, false);
  };
  RETURN_IF_ERROR(write("resolv.conf", resolv_conf.text));
  RETURN_IF_ERROR(write("hostname", PodHostname(pod, node) + "\n"));
  // The last: where it is, all are.
  return write("etc-hosts", HostsFile(pod, node, pod_ips));
}

}  // namespace holdfast::agent
