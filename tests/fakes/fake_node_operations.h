// SPDX-License-Identifier: Apache-2.0
// FakeNodeOperations: a node over fakes. What a test wants otherwise it sets before a server runs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/images/pod_pulls.h"
#include "agent/operate/delete_object.h"
#include "agent/operate/node_operations.h"
#include "agent/proxy/service_view.h"
#include "agent/stats/node_stats.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

class FakeNodeOperations final : public NodeOperations {
 public:
  FakeNodeOperations(PodView& pods, ServiceView& services, ContainerRuntime& runtime,
                     ImageStore& images)
      : pods_(pods), services_(services), runtime_(runtime), images_(images) {}

  std::function<Result<std::vector<EditedObject>>(const std::string& manifest,
                                                  const std::string& origin, bool dry_run,
                                                  const std::string& name_space)>
      apply;
  std::function<Result<EditedObject>(const std::string& kind, const std::string& object_namespace,
                                     const std::string& name)>
      delete_object;
  std::function<void(const PodUid&, std::optional<std::chrono::seconds>)> set_deletion_grace;
  std::function<corev1::Node()> node = [] {
    corev1::Node node1;
    node1.mutable_metadata()->set_name("node1");
    return node1;
  };

  RightsReview rights{{{"list", "nodes", "there are no routes"}}, "kind: Binding", "", "no answer"};

  PodPulls pod_pulls;

  std::vector<ConfigObjectPtr> configs;
  std::string cluster_has_configs;  // why there are none; "": there are

  PodView& pods() override { return pods_; }
  ServiceView& services() override { return services_; }
  Result<std::vector<ConfigObjectPtr>> ConfigObjects(ObjectKind kind) override {
    if (!cluster_has_configs.empty()) return Conflict(cluster_has_configs);
    std::vector<ConfigObjectPtr> of_kind;
    for (const ConfigObjectPtr& config : configs) {
      if (config->ref.kind == kind) of_kind.push_back(config);
    }
    return of_kind;
  }
  ImageStore& images() override { return images_; }
  const PodPulls& pulls() const override { return pod_pulls; }
  Result<FreedImages> PruneImages(const PruneWish& wish) override {
    FreedImages freed;
    ASSIGN_OR_RETURN(const std::vector<Image> all, images().List());
    for (const Image& image : all) {
      if (!IsPruned(image, wish)) continue;
      RETURN_IF_ERROR(images().Remove(image.repo_tags.front()));
      freed.bytes += image.size_bytes;
      freed.images.push_back(image);
    }
    return freed;
  }
  Result<ImagesUsage> UsageOfImages() override {
    ASSIGN_OR_RETURN(const std::vector<Image> all, images().List());
    ImagesUsage usage;
    for (const Image& image : all) {
      usage.images.push_back({image, image.size_bytes, 0, false, {}});
      usage.total += image.size_bytes;
    }
    usage.reclaimable = usage.total;
    return usage;
  }
  // "absent…" is not in the registry; "slow…" comes when it is cancelled only.
  Result<PulledImage> PullImage(const std::string& reference,
                                const std::function<void(const PullProgress&)>& progress,
                                const std::atomic<bool>& cancelled) override {
    if (reference.starts_with("absent")) return NotFound(reference + ": not found");
    PullProgress now;
    now.layers.push_back({"sha256:1", 100, 50, LayerProgress::State::kDownloading});
    progress(now);
    while (reference.starts_with("slow") && !cancelled) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (cancelled) return Unavailable("the pull was cancelled");
    PulledImage pulled;
    pulled.image.id = Digest("sha256:" + std::string(64, 'a'));
    pulled.image.repo_tags = {reference};
    return pulled;
  }
  // As PullImage; of "index…" one image.
  Result<PushedImage> PushImage(const std::string& reference, const std::string& destination,
                                const std::function<void(const PushProgress&)>& progress,
                                const std::atomic<bool>& cancelled) override {
    if (reference.starts_with("absent")) return NotFound("no image " + reference);
    PushProgress now;
    now.layers.push_back({"sha256:1", 100, 50, PushedLayer::State::kUploading});
    now.layers.push_back({"sha256:2", 100, 100, PushedLayer::State::kMounted});
    progress(now);
    while (reference.starts_with("slow") && !cancelled) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (cancelled) return Unavailable("the push was cancelled");
    PushedImage pushed{
        destination.empty() ? reference : destination, "r/app@sha256:m", 2048, false, {}};
    if (reference.starts_with("index")) pushed.index = Digest("sha256:i");
    return pushed;
  }
  std::string version() const override { return "0.1.0"; }
  corev1::Node DescribeNode() override { return node(); }
  NodeStats& stats() override { return stats_; }
  Result<std::vector<EditedObject>> Apply(const std::string& manifest, const std::string& origin,
                                          bool dry_run, const std::string& name_space) override {
    return apply(manifest, origin, dry_run, name_space);
  }
  Result<EditedObject> Delete(const Deletion& deletion) override {
    return DeleteObject(pods_, "node1", {delete_object, set_deletion_grace}, deletion);
  }
  // Whatever the container: the pod as it is shown, and it.
  Result<std::shared_ptr<const corev1::Pod>> AddEphemeralContainer(
      const std::string& pod_namespace, const std::string& name,
      const corev1::EphemeralContainer& container) override {
    const PodPtr known = pods_.FindPod(pod_namespace, name);
    if (!known) return NotFound("pods \"" + name + "\" not found");
    auto pod = std::make_shared<corev1::Pod>(*known);
    *pod->mutable_spec()->add_ephemeralcontainers() = container;
    return pod;
  }
  Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id, const ExecSpec& spec) override {
    return runtime_.Exec(id, spec);
  }
  Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) override {
    return runtime_.Attach(id, spec);
  }
  Result<void> CloseStdin(const ContainerId& id) override { return runtime_.CloseStdin(id); }
  Result<NsFd> NetworkNamespace(const PodUid& uid) override {
    return runtime_.NetworkNamespace(uid);
  }
  Result<std::vector<Leftover>> Audit(bool) override {
    return std::vector<Leftover>{{"cgroup", "kubepods/pod-x", "no pod of this UID"}};
  }
  RightsReview ReviewRights() override { return rights; }

 private:
  PodView& pods_;
  const model::Instance instance_;
  const SystemClock clock_;
  NodeStats stats_{{instance_, pods_, clock_}};
  ServiceView& services_;
  ContainerRuntime& runtime_;
  ImageStore& images_;
};

}  // namespace holdfast::agent
