// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/audit_node.h"

#include <fcntl.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "agent/operate/pod_directories.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/written_volumes.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {
namespace {

using Remover = std::function<Result<void>(const std::string&)>;

// A client waits.
constexpr std::chrono::seconds kRemovalTime{20};

// A new pod is shown before it has a directory.
std::set<PodUid> KnownPods(const AuditedParts& parts) {
  const std::vector<PodUid> live = parts.table.Live();
  std::set<PodUid> known(live.begin(), live.end());
  for (const PodPtr& pod : parts.pods.ListPods()) known.insert(PodUid(pod->metadata().uid()));
  return known;
}

Result<void> RemoveDirectory(const std::string& path) {
  sys::RemoveLimits limits;
  limits.until = std::chrono::steady_clock::now() + kRemovalTime;
  return sys::RemoveTreeAt(AT_FDCWD, path, limits);
}

}  // namespace

Result<std::vector<Leftover>> AuditNode(const AuditedParts& parts, bool repair) {
  // First what is only on its way: addresses whose interfaces are gone by now.
  RETURN_IF_ERROR(parts.network.Ensure());
  const std::vector<PodUid> live = parts.table.Live();
  ASSIGN_OR_RETURN(std::vector<Leftover> found, parts.runtime.Audit(live, repair));
  ASSIGN_OR_RETURN(const std::vector<Leftover> network, parts.network.Audit(live, repair));
  found.insert(found.end(), network.begin(), network.end());
  const auto known = [&parts] { return KnownPods(parts); };
  AuditPodDirectories(parts.instance.PodsDir(), known, repair ? Remover(RemoveDirectory) : nullptr,
                      found);
  AuditPodDirectories(parts.instance.PodFilesDir(), known,
                      repair ? Remover(ReleasePodFiles) : nullptr, found);
  AuditPodDirectories(parts.instance.WrittenVolumesDir(), known,
                      repair ? Remover(ReleaseWrittenVolumes) : nullptr, found);
  const std::vector<Leftover> aside = parts.leftovers.Audit(repair);
  found.insert(found.end(), aside.begin(), aside.end());
  return found;
}

}  // namespace holdfast::agent
