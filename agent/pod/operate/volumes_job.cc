// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/volumes_job.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "agent/kube/volume_kinds.h"
#include "agent/objects/kept_inputs.h"
#include "agent/pod/operate/claim_growth.h"
#include "agent/pod/spec/claimed_volumes.h"
#include "agent/pod/spec/selinux.h"
#include "agent/pod/spec/volume_files.h"
#include "agent/view/pod_view_store.h"
#include "agent/volume/persistent_volumes.h"
#include "agent/volume/placed_volumes.h"
#include "agent/volume/set_up_failed.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {

// What was given up on the way is no failure.
OperationEnd VolumesJob::CarryOut() {
  OperationEnd end = Ensure();
  return GivesUp() ? Cancelled() : end;
}

// What comes in between counts as not shown yet.
OperationEnd VolumesJob::Ensure() {
  const uint64_t version =
      input_.inputs == nullptr ? 0 : input_.inputs->VersionOf(PodUid(input_.pod->metadata().uid()));
  OperationEnd end = End(MakeVolumes());
  end.inputs_version = version;
  if (end.how == OperationEnd::How::kDone) KeepInputs();
  return end;
}

void VolumesJob::GrowClaims(const PersistentVolumes& volumes) {
  const bool any = std::ranges::any_of(
      volumes | std::views::values, [](const auto& volume) { return volume.growing != nullptr; });
  if (!any || services_.csi == nullptr || !services_.patch_claim) return;
  const auto placed = ReadPlacedVolumes(paths_);
  if (!placed) return;  // who placed them has just read and written it
  ClaimGrowth growth(services_, Inputs(), *input_.pod, cancelled_);
  for (EventNote& note : growth.Grow(volumes, *placed)) events_.push_back(std::move(note));
}

// For a start without the API server; what files have is there at every start. Whatever is wrong with it does no harm now.
void VolumesJob::KeepInputs() {
  if (!HasApiInputs()) return;
  const auto inputs = CollectInputs(*input_.pod, *input_.inputs, services_.keep_secrets);
  if (!inputs) return;
  const std::string text = EncodeKept(*inputs);
  if (text.size() > kMostKept) {
    return Log(StrCat("what it is made from has ", text.size(), " bytes, more than ", kMostKept,
                      ": it is not kept for a start without the API server"));
  }
  if (auto saved = services_.state.SaveInputs(*input_.pod, text); !saved) {
    Log(StrCat("keep inputs: ", saved.error().message(), ", ignoring"));
  }
}

Result<void> VolumesJob::MakeVolumes() {
  const auto node = services_.node();
  BuiltVolumes built = BuildVolumeContents(*input_.pod, Inputs(), *node);
  auto ensured = EnsureVolumes(*input_.pod, paths_, node->memory_allocatable_bytes, built.contents);
  if (!built.errors.empty()) return std::move(built.errors.front());
  RETURN_IF_ERROR(ensured);
  RETURN_IF_ERROR(MakePersistentVolumes(*node));
  HOLDFAST_PAUSE_POINT("agent.pod.volumes_ready");
  return {};
}

void VolumesJob::LabelMounts(const NodeEnvironment& node, ClaimedVolumes& claimed) const {
  for (auto it = claimed.volumes.begin(); it != claimed.volumes.end();) {
    auto& [name, volume] = *it;
    auto labelled = MountWithLabel(*input_.pod, name, node.selinux, volume);
    if (labelled) {
      ++it;
      continue;
    }
    claimed.errors.emplace(name, SetUpFailed(volume.name, std::move(labelled.error())));
    it = claimed.volumes.erase(it);
  }
}

// What a claim is bound to must be known once: what lies on the node already needs nobody any more.
Result<void> VolumesJob::MakePersistentVolumes(const NodeEnvironment& node) {
  if (!kube::HasPersistent(input_.pod->spec())) return {};
  ASSIGN_OR_RETURN(const PlacedVolumes placed, ReadPlacedVolumes(paths_));
  const std::vector<std::string> standing =
      StandingVolumes(PodUid(input_.pod->metadata().uid()), placed, services_.runtime);
  ClaimedVolumes claimed =
      BuildClaimedVolumes(*input_.pod, Inputs(), node.node_name, services_.node_labels(), standing);
  LabelMounts(node, claimed);
  const VolumeMounters mounters{services_.csi, services_.nfs, services_.runtime,
                                [this](const corev1::Pod& pod, const EventNote& note) {
                                  services_.view.AddEvents(pod, {note});
                                }};
  std::vector<Error> errors =
      EnsurePersistentVolumes(*input_.pod, paths_, claimed.volumes, mounters, cancelled_);
  GrowClaims(claimed.volumes);
  for (auto& [name, error] : claimed.errors) {
    if (std::ranges::find(standing, name) == standing.end()) errors.push_back(std::move(error));
  }
  if (!errors.empty()) return std::move(errors.front());
  return {};
}

}  // namespace holdfast::agent
