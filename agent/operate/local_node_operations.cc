// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/local_node_operations.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "agent/kube/network_not_ready.h"
#include "agent/kube/validation/validate.h"
#include "agent/node/node_reader.h"
#include "agent/objects/object_kinds.h"
#include "agent/operate/delete_object.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "runtime/image/pull/short_names.h"

namespace holdfast::agent {

LocalNodeOperations::LocalNodeOperations(NodeParts parts) : parts_(std::move(parts)) {}

corev1::Node LocalNodeOperations::DescribeNode() {
  const WallTime now = parts_.clock.Wall();
  const std::string problem = kube::NetworkNotReady(parts_.audited.network.NotReadyBecause());
  const ReadyState ready{problem.empty(), problem};
  corev1::Node node = MakeNode(parts_.config, parts_.version, ready, parts_.started, now);
  *node.mutable_status()->add_conditions() = parts_.faults.Condition(now);
  if (!parts_.cluster.conditions) return node;
  for (corev1::NodeCondition& condition : parts_.cluster.conditions(now)) {
    *node.mutable_status()->add_conditions() = std::move(condition);
  }
  return node;
}

Result<std::vector<ConfigObjectPtr>> LocalNodeOperations::ConfigObjects(ObjectKind kind) {
  if (!parts_.config.cluster.kubeconfig.empty()) {
    const char* resource = RowOf(kind).resource;
    return Conflict(StrCat("this node belongs to a cluster, whose API server has its ", resource,
                           ": use kubectl get ", resource));
  }
  std::vector<ConfigObjectPtr> objects;
  for (const DesiredConfig& config : parts_.manifests.Snapshot()->configs) {
    if (config.object->ref.kind == kind) objects.push_back(config.object);
  }
  std::ranges::sort(objects, {}, [](const ConfigObjectPtr& object) { return object->ref; });
  return objects;
}

Result<std::vector<EditedObject>> LocalNodeOperations::Apply(const std::string& manifest,
                                                             const std::string& origin,
                                                             bool dry_run,
                                                             const std::string& name_space) {
  auto edited = parts_.editor.Apply(manifest, origin, dry_run, name_space);
  if (!edited || dry_run) return edited;
  HOLDFAST_PAUSE_POINT("api.apply.written");
  std::set<std::string> files;
  for (const EditedObject& object : *edited) files.insert(object.file);
  parts_.manifests.Reread(files);
  return edited;
}

Result<EditedObject> LocalNodeOperations::Delete(const Deletion& deletion) {
  const DeletionSteps steps{
      .remove_manifest =
          [this](const std::string& kind, const std::string& object_namespace,
                 const std::string& name) {
            return parts_.editor.Delete(kind, object_namespace, name);
          },
      .set_grace =
          [this](const PodUid& uid, std::optional<std::chrono::seconds> grace) {
            parts_.table.SetDeletionGrace(uid, grace);
          }};
  auto deleted = DeleteObject(parts_.pods, parts_.audited.instance.node_name, steps, deletion);
  if (!deleted) return deleted;
  HOLDFAST_PAUSE_POINT("api.delete.removed");
  if (!deleted->file.empty()) parts_.manifests.Reread({deleted->file});
  return deleted;
}

Result<PulledImage> LocalNodeOperations::PullImage(
    const std::string& reference, const std::function<void(const PullProgress&)>& progress,
    const std::atomic<bool>& cancelled) {
  ASSIGN_OR_RETURN(const auto names, parts_.short_names.Candidates(reference));
  return FirstPulled(
      reference, names,
      [&](const std::string& name) { return PullNamed(name, progress, cancelled); }, cancelled);
}

Result<PulledImage> LocalNodeOperations::PullNamed(
    const std::string& name, const std::function<void(const PullProgress&)>& progress,
    const std::atomic<bool>& cancelled) {
  const Keyring keyring = parts_.node_logins(name, cancelled);
  PullRequest request;
  request.reference = name;
  request.logins = [&](const std::string& repository) { return keyring.Find(repository); };
  request.progress = progress;
  request.for_person = true;
  return parts_.puller.Pull(request, cancelled);
}

Result<PushedImage> LocalNodeOperations::PushImage(
    const std::string& reference, const std::string& destination,
    const std::function<void(const PushProgress&)>& progress, const std::atomic<bool>& cancelled) {
  PushRequest request;
  request.reference = parts_.images.Here(reference);
  request.destination = destination;
  if (!destination.empty()) {
    ASSIGN_OR_RETURN(const auto names, parts_.short_names.Candidates(destination));
    if (names.size() > 1) {
      return InvalidArgument(StrCat("short name \"", destination, "\" may be of ", names.size(),
                                    " registries: name the one to push to"));
    }
    request.destination = names.front();
  }
  const Keyring keyring = parts_.node_logins(
      request.destination.empty() ? request.reference : request.destination, cancelled);
  request.logins = [&](const std::string& repository) { return keyring.Find(repository); };
  request.progress = progress;
  return parts_.pusher.Push(request, cancelled);
}

Result<std::shared_ptr<const corev1::Pod>> LocalNodeOperations::AddEphemeralContainer(
    const std::string& pod_namespace, const std::string& pod,
    const corev1::EphemeralContainer& container) {
  const PodPtr running =
      FindPodOfManifest(parts_.pods, parts_.config.instance.node_name, pod_namespace, pod);
  if (!running) return NotFound(StrCat("pods \"", pod, "\" not found"));
  corev1::EphemeralContainer complete = container;
  std::string faults;
  for (const kube::FieldError& fault : kube::CompleteEphemeralContainer(*running, &complete)) {
    faults += StrCat(faults.empty() ? "" : "\n", fault.ToString());
  }
  if (!faults.empty()) return InvalidArgument(faults);
  return parts_.table.AddEphemeralContainer(PodUid(running->metadata().uid()), complete);
}

Result<std::unique_ptr<ExecSession>> LocalNodeOperations::Exec(const ContainerId& id,
                                                               const ExecSpec& spec) {
  return parts_.audited.runtime.Exec(id, spec);
}

Result<AttachedStreams> LocalNodeOperations::Attach(const ContainerId& id, const AttachSpec& spec) {
  return parts_.audited.runtime.Attach(id, spec);
}

Result<void> LocalNodeOperations::CloseStdin(const ContainerId& id) {
  return parts_.audited.runtime.CloseStdin(id);
}

Result<NsFd> LocalNodeOperations::NetworkNamespace(const PodUid& uid) {
  return parts_.audited.runtime.NetworkNamespace(uid);
}

Result<std::vector<Leftover>> LocalNodeOperations::Audit(bool repair) {
  return AuditNode(parts_.audited, repair);
}

RightsReview LocalNodeOperations::ReviewRights() {
  return parts_.cluster.review_rights ? parts_.cluster.review_rights() : RightsReview();
}

}  // namespace holdfast::agent
