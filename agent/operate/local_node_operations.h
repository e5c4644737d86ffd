// SPDX-License-Identifier: Apache-2.0
// LocalNodeOperations: the operations of the node that this agent runs, carried out by its parts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/images/keyring.h"
#include "agent/images/short_named_images.h"
#include "agent/operate/audit_node.h"
#include "agent/operate/node_operations.h"
#include "agent/source/manifest_directory.h"
#include "agent/source/source_faults.h"
#include "holdfast/base/clock.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::runtime {
class ShortNames;
}

namespace holdfast::agent {

// Of a node that is part of a cluster; empty functions for one that stands alone.
struct ClusterOperationsParts {
  // How its credentials do, as conditions of the Node that only this node shows.
  std::function<std::vector<corev1::NodeCondition>(WallTime now)> conditions;
  std::function<RightsReview()> review_rights;
};

// Borrowed, except what is a value.
struct NodeParts {
  AuditedParts audited;
  PodTable& table;
  PodView& pods;
  NodeStats& stats;
  ServiceView& services;
  ShortNamedImages& images;
  ImagePuller& puller;
  ImagePusher& pusher;
  const PodPulls& pulls;
  const runtime::ShortNames& short_names;
  ImageCollector& image_collector;
  // What the node itself may show to registries for an image.
  std::function<Keyring(const std::string& reference, const std::atomic<bool>& cancelled)>
      node_logins;
  ManifestEditor& editor;
  ManifestDirectory& manifests;
  const SourceFaults& faults;
  const AgentConfig& config;
  const Clock& clock;
  WallTime started;
  std::string version;
  ClusterOperationsParts cluster;
};

class LocalNodeOperations final : public NodeOperations {
 public:
  explicit LocalNodeOperations(NodeParts parts);

  PodView& pods() override { return parts_.pods; }
  ServiceView& services() override { return parts_.services; }
  Result<std::vector<ConfigObjectPtr>> ConfigObjects(ObjectKind kind) override;
  ImageStore& images() override { return parts_.images; }
  Result<PulledImage> PullImage(const std::string& reference,
                                const std::function<void(const PullProgress&)>& progress,
                                const std::atomic<bool>& cancelled) override;
  Result<PushedImage> PushImage(const std::string& reference, const std::string& destination,
                                const std::function<void(const PushProgress&)>& progress,
                                const std::atomic<bool>& cancelled) override;
  const PodPulls& pulls() const override { return parts_.pulls; }
  Result<FreedImages> PruneImages(const PruneWish& wish) override {
    return parts_.image_collector.Prune(wish);
  }
  Result<ImagesUsage> UsageOfImages() override { return parts_.image_collector.Usage(); }
  std::string version() const override { return parts_.version; }
  corev1::Node DescribeNode() override;
  NodeStats& stats() override { return parts_.stats; }
  Result<std::vector<EditedObject>> Apply(const std::string& manifest, const std::string& origin,
                                          bool dry_run, const std::string& name_space) override;
  Result<EditedObject> Delete(const Deletion& deletion) override;
  Result<std::shared_ptr<const corev1::Pod>> AddEphemeralContainer(
      const std::string& pod_namespace, const std::string& pod,
      const corev1::EphemeralContainer& container) override;
  Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id, const ExecSpec& spec) override;
  Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) override;
  Result<void> CloseStdin(const ContainerId& id) override;
  Result<NsFd> NetworkNamespace(const PodUid& uid) override;
  Result<std::vector<Leftover>> Audit(bool repair) override;
  RightsReview ReviewRights() override;

 private:
  Result<PulledImage> PullNamed(const std::string& name,
                                const std::function<void(const PullProgress&)>& progress,
                                const std::atomic<bool>& cancelled);

  const NodeParts parts_;
};

}  // namespace holdfast::agent
