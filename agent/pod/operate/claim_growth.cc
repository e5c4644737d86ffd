// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/claim_growth.h"

#include <utility>

#include "agent/kube/claim_resize.h"
#include "agent/kube/quantity.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/spec/input_values.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

// The plugin may still be at it.
bool MayStillGrow(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded ||
         code == Code::kResourceExhausted;
}

bool NeverGrows(Code code) { return code == Code::kInvalidArgument || code == Code::kNotFound; }

}  // namespace

std::vector<EventNote> ClaimGrowth::Grow(const PersistentVolumes& volumes,
                                         const PlacedVolumes& placed) {
  for (const auto& [name, volume] : volumes) {
    const auto place = placed.find(name);
    if (volume.growing == nullptr || place == placed.end() || !place->second.ready) continue;
    const auto grown = GrowClaim(volume, place->second);
    if (grown || cancelled_) continue;
    notes_.push_back({true, "VolumeResizeFailed",
                      StrCat("NodeExpandVolume.NodeExpandVolume failed for volume \"", volume.name,
                             "\" : ", grown.error().message()),
                      "", false});
  }
  return std::exchange(notes_, {});
}

// 1. the claim says that it is under way; 2. the plugin does it; 3. the claim has its size.
Result<void> ClaimGrowth::GrowClaim(const PersistentVolume& volume, const PlacedVolume& place) {
  const kube::Claim& claim = *volume.growing;
  ASSIGN_OR_RETURN(const CsiSecrets secrets, ExpandSecrets(volume));
  ASSIGN_OR_RETURN(const kube::Amount size, kube::Amount::Parse(kube::SizeToBe(claim)));
  std::string version = claim.metadata().resourceversion();
  if (std::string begun = kube::ResizeBegun(claim); !begun.empty()) {
    ASSIGN_OR_RETURN(version, services_.patch_claim(claim, std::move(begun)));
  }
  HOLDFAST_PAUSE_POINT("agent.pod.claim_grows");
  auto grown = services_.csi->Expand(volume, place, secrets, size.Units(), cancelled_);
  if (!grown) return NotGrown(claim, std::move(grown.error()));
  const EventNote note{false, "FileSystemResizeSuccessful",
                       StrCat("MountVolume.NodeExpandVolume succeeded for volume \"", volume.name,
                              "\" ", services_.node()->node_name),
                       "", false};
  notes_.push_back(note);
  const auto& meta = claim.metadata();
  services_.view.AddEvent(
      {"PersistentVolumeClaim", meta.namespace_(), meta.name(), meta.uid(), "kubelet"}, note);
  auto told = services_.patch_claim(claim, kube::ResizeDone(claim, version));
  if (told) return {};
  return std::move(told.error()).Wrap("mountVolume.NodeExpandVolume update pvc status failed");
}

Result<void> ClaimGrowth::NotGrown(const kube::Claim& claim, Error error) {
  if (MayStillGrow(error.code())) return error;
  std::string failed =
      kube::ResizeFailed(claim, error.message(), NeverGrows(error.code()), services_.clock.Wall());
  if (!failed.empty()) {
    if (auto told = services_.patch_claim(claim, std::move(failed)); !told) {
      services_.log(StrCat("pod ", PodLabel(pod_), ": tell a claim that it does not grow: ",
                           told.error().message(), ", ignoring"));
    }
  }
  if (error.code() == Code::kConflict) return {};  // not while it is in use: nobody's fault
  return error;
}

Result<CsiSecrets> ClaimGrowth::ExpandSecrets(const PersistentVolume& volume) const {
  const auto& source = volume.spec.persistentvolumesource().csi();
  if (!source.has_nodeexpandsecretref()) return CsiSecrets();
  const auto& ref = source.nodeexpandsecretref();
  auto data = ObjectOf(inputs_, PodUid(pod_.metadata().uid()),
                       {ObjectKind::kSecret, ref.namespace_(), ref.name()}, false);
  if (!data) {
    return std::move(data.error())
        .Wrap(StrCat("expander.NodeExpand failed to get NodeExpandSecretRef ", ref.namespace_(),
                     "/", ref.name()));
  }
  return CsiSecrets(*data, &(*data)->values);
}

}  // namespace holdfast::agent
