// SPDX-License-Identifier: Apache-2.0
// NodeOperations: what can be asked of this node, whichever API somebody comes by. Thread-safe; what
// may block says so.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/identity/node_rights.h"
#include "agent/image_gc/image_collector.h"
#include "agent/kube/types_fwd.h"
#include "agent/objects/config_object.h"
#include "agent/source/manifest_editor.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_pusher.h"
#include "holdfast/interfaces/image_store.h"

namespace k8s::io::api::core::v1 {
class EphemeralContainer;
}

namespace holdfast::agent {

class NodeStats;
class PodPulls;
class PodView;
class ServiceView;

// A deletion that is asked for.
struct Deletion {
  std::string kind;  // as in EditedObject
  std::string object_namespace;
  std::string name;                           // a pod's with or without the node's suffix
  std::optional<std::chrono::seconds> grace;  // of a pod; nullopt: its own
};

class NodeOperations {
 public:
  virtual ~NodeOperations() = default;

  // What is there.
  virtual PodView& pods() = 0;
  virtual ServiceView& services() = 0;
  // The ConfigMaps, or the Secrets, of the manifest directory; sorted by namespace, then name. kConflict: they are an API
  // server's.
  virtual Result<std::vector<ConfigObjectPtr>> ConfigObjects(ObjectKind kind) = 0;
  virtual ImageStore& images() = 0;
  // With the node's own logins. Blocks until the image is here, or `cancelled`.
  virtual Result<PulledImage> PullImage(const std::string& reference,
                                        const std::function<void(const PullProgress&)>& progress,
                                        const std::atomic<bool>& cancelled) = 0;
  // From the store to a registry, with the node's own logins. Blocks until it is there, or `cancelled`.
  virtual Result<PushedImage> PushImage(const std::string& reference,
                                        const std::string& destination,
                                        const std::function<void(const PushProgress&)>& progress,
                                        const std::atomic<bool>& cancelled) = 0;
  // Those that pods of the node wait for.
  virtual const PodPulls& pulls() const = 0;
  // As ImageCollector has them. Both may block, and long.
  virtual Result<FreedImages> PruneImages(const PruneWish& wish) = 0;
  virtual Result<ImagesUsage> UsageOfImages() = 0;
  virtual std::string version() const = 0;  // of the agent
  // The synthetic Node object. May block on small files.
  virtual corev1::Node DescribeNode() = 0;
  // What node, pods and containers have used. May block on small files.
  virtual NodeStats& stats() = 0;

  // As ManifestEditor::Apply; what was written takes effect at once. May block.
  virtual Result<std::vector<EditedObject>> Apply(const std::string& manifest,
                                                  const std::string& origin, bool dry_run,
                                                  const std::string& name_space) = 0;
  // Takes the object's manifest away, which takes effect at once. A pod that is ending already is
  // given a shorter grace period, never a longer one. May block.
  virtual Result<EditedObject> Delete(const Deletion& deletion) = 0;

  // Puts an ephemeral container into a running pod of a manifest, named with or without the node's
  // suffix; the pod as it is wanted then. kInvalidArgument has every fault; the rest as PodTable has it.
  virtual Result<std::shared_ptr<const corev1::Pod>> AddEphemeralContainer(
      const std::string& pod_namespace, const std::string& pod,
      const corev1::EphemeralContainer& container) = 0;

  // A program in a running container. May block.
  virtual Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id,
                                                    const ExecSpec& spec) = 0;
  // A running container's own streams; as ContainerRuntime has them. May block.
  virtual Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) = 0;
  virtual Result<void> CloseStdin(const ContainerId& id) = 0;
  // Of a pod that has one of its own. May block.
  virtual Result<NsFd> NetworkNamespace(const PodUid& uid) = 0;

  // What belongs to no pod; with `repair` it is removed. May block.
  virtual Result<std::vector<Leftover>> Audit(bool repair) = 0;
  // What the node may not do in its cluster; nothing for one that stands alone. May block.
  virtual RightsReview ReviewRights() = 0;
};

}  // namespace holdfast::agent
