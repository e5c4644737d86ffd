// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/claimed_volumes.h"

#include <algorithm>
#include <utility>

#include "agent/kube/claim_resize.h"
#include "agent/kube/containers_of.h"
#include "agent/kube/node_selector.h"
#include "agent/kube/volume_kinds.h"
#include "agent/objects/references.h"
#include "agent/pod/spec/csi_uses.h"
#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Claim = corev1::PersistentVolumeClaim;

template <class Object>
std::string VolumeModeOf(const Object& object) {
  return object.spec().has_volumemode() ? object.spec().volumemode() : "Filesystem";
}

// What is present, as the object that it is; its data must outlive that.
template <class Object>
Result<const Object*> PresentIn(const ObjectInput& input) {
  if (input.state == InputState::kPending) return Unavailable("it has not been read yet");
  if (input.state != InputState::kPresent) {
    return Error(input.state == InputState::kAbsent ? Code::kNotFound : Code::kUnavailable,
                 input.why);
  }
  const auto* const object = ObjectIn<Object>(input.data);
  if (object == nullptr) return Internal("it is of another kind");
  return object;
}

bool IsOfPod(const Claim& claim, const corev1::Pod& pod) {
  const auto& owners = claim.metadata().ownerreferences();
  return std::any_of(owners.begin(), owners.end(), [&](const auto& owner) {
    return owner.controller() && owner.uid() == pod.metadata().uid();
  });
}

class ClaimResolver {
 public:
  ClaimResolver(const corev1::Pod& pod, const PodInputs& inputs) : pod_(pod), inputs_(inputs) {
    kube::ForEachContainer(pod.spec(), [&](kube::ContainerList /*list*/, const auto& container) {
      for (const auto& mount : container.volumemounts()) mounts_.insert(mount.name());
      for (const auto& device : container.volumedevices()) devices_.insert(device.name());
    });
  }

  Result<PersistentVolume> VolumeOf(const corev1::Volume& volume, bool stands) const {
    const std::string name = kube::ClaimNameOf(pod_, volume);
    auto found = Bound(volume, name, stands);
    if (!found) {
      return std::move(found.error())
          .Wrap(StrCat("error processing PVC ", pod_.metadata().namespace_(), "/", name));
    }
    RETURN_IF_ERROR(CheckMode(volume.name(), *found));
    const bool read_only = volume.volumesource().persistentvolumeclaim().readonly();
    PersistentVolume out{found->metadata().name(), found->spec(), read_only};
    if (!read_only && out.spec.persistentvolumesource().has_csi()) out.growing = Growing(name);
    return out;
  }

 private:
  Result<corev1::PersistentVolume> Bound(const corev1::Volume& volume, const std::string& name,
                                         bool stands) const {
    const ObjectInput input = Input({ObjectKind::kClaim, pod_.metadata().namespace_(), name});
    auto claim = PresentIn<Claim>(input);
    if (!claim) return std::move(claim.error()).Wrap("failed to fetch PVC from API server");
    if (volume.volumesource().has_ephemeral() && !IsOfPod(**claim, pod_)) {
      return Conflict(StrCat("PVC ", pod_.metadata().namespace_(), "/", name,
                             " was not created for pod ", pod_.metadata().namespace_(), "/",
                             pod_.metadata().name(), " (pod is not owner)"));
    }
    RETURN_IF_ERROR(CheckClaim(**claim, stands));
    return VolumeOf(**claim);
  }

  std::shared_ptr<const Claim> Growing(const std::string& name) const {
    const auto data = Input({ObjectKind::kClaim, pod_.metadata().namespace_(), name}).data;
    const auto* const claim = ObjectIn<Claim>(data);
    if (claim == nullptr || !kube::AwaitsNodeResize(*claim)) return nullptr;
    return {data, claim};
  }

  // The claim says who is to have it; whether he has it the volume says.
  static Result<void> CheckClaim(const Claim& claim, bool stands) {
    if (claim.metadata().has_deletiontimestamp() && !stands) {
      return Conflict("PVC is being deleted");
    }
    if (claim.status().phase() != "Bound") return Unavailable("PVC is not bound");
    if (claim.spec().volumename().empty()) return Conflict("PVC has empty pvc.Spec.VolumeName");
    return {};
  }

  Result<corev1::PersistentVolume> VolumeOf(const Claim& claim) const {
    const std::string& name = claim.spec().volumename();
    const ObjectInput input = Input({ObjectKind::kVolume, "", name});
    auto volume = PresentIn<corev1::PersistentVolume>(input);
    if (!volume) {
      return std::move(volume.error())
          .Wrap(StrCat("failed to fetch PV ", name, " from API server"));
    }
    if (!(*volume)->spec().has_claimref()) {
      return Conflict(StrCat("found PV object ", name,
                             " but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to "
                             "the claim"));
    }
    const std::string& uid = (*volume)->spec().claimref().uid();
    if (uid != claim.metadata().uid()) {
      return Conflict(StrCat("found PV object ", name, " but its pv.Spec.ClaimRef.UID ", uid,
                             " does not point to claim.UID ", claim.metadata().uid()));
    }
    return **volume;
  }

  Result<void> CheckMode(const std::string& name, const corev1::PersistentVolume& volume) const {
    const std::string mode = VolumeModeOf(volume);
    if (mounts_.contains(name) && mode != "Filesystem") {
      return InvalidArgument(
          StrCat("volume ", name, " has volumeMode ", mode, ", but is specified in volumeMounts"));
    }
    if (devices_.contains(name) && mode != "Block") {
      return InvalidArgument(
          StrCat("volume ", name, " has volumeMode ", mode, ", but is specified in volumeDevices"));
    }
    return {};
  }

  ObjectInput Input(const ObjectRef& ref) const {
    return inputs_.Object(PodUid(pod_.metadata().uid()), ref);
  }

  const corev1::Pod& pod_;
  const PodInputs& inputs_;
  std::set<std::string> mounts_, devices_;
};

// One that the pod names itself.
PersistentVolume InlineNfsVolume(const corev1::Volume& volume) {
  PersistentVolume out;
  out.name = volume.name();
  *out.spec.mutable_persistentvolumesource()->mutable_nfs() = volume.volumesource().nfs();
  out.read_only = volume.volumesource().nfs().readonly();
  return out;
}

// A kubelet's two moments: before it knows what to mount, and before it mounts.
Error NotProcessed(const std::string& volume, const Error& error) {
  return {error.code(), StrCat("Unable to attach or mount volumes: unmounted volumes=[", volume,
                               "], unattached volumes=[], failed to process volumes=[", volume,
                               "]: ", error.message())};
}

Error NotHere(const PersistentVolume& volume) {
  return StepFailed(
      IsBlock(volume) ? "MapVolume.NodeAffinity check" : "MountVolume.NodeAffinity check",
      volume.name, Conflict("no matching NodeSelectorTerms"));
}

}  // namespace

ClaimedVolumes BuildClaimedVolumes(const corev1::Pod& pod, const PodInputs& inputs,
                                   const std::string& node_name,
                                   const std::map<std::string, std::string>& labels,
                                   const std::vector<std::string>& standing) {
  const ClaimResolver resolver(pod, inputs);
  ClaimedVolumes out;
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (!kube::IsPersistent(volume.volumesource())) continue;
    const bool stands = std::ranges::find(standing, volume.name()) != standing.end();
    const auto& source = volume.volumesource();
    auto found = source.has_csi()   ? Result<PersistentVolume>(EphemeralCsiVolume(pod, volume))
                 : source.has_nfs() ? Result<PersistentVolume>(InlineNfsVolume(volume))
                                    : resolver.VolumeOf(volume, stands);
    if (!found) {
      out.errors.emplace(volume.name(), NotProcessed(volume.name(), found.error()));
      continue;
    }
    const auto& affinity = found->spec.nodeaffinity();
    if (affinity.has_required() && !kube::MatchesNode(affinity.required(), node_name, labels)) {
      out.errors.emplace(volume.name(), NotHere(*found));
      continue;
    }
    const bool is_csi = found->spec.persistentvolumesource().has_csi();
    auto filled = is_csi ? FillCsiUse(pod, inputs, node_name, *found) : Result<void>();
    if (!filled) {
      out.errors.emplace(volume.name(), std::move(filled.error()));
    } else {
      out.volumes.emplace(volume.name(), std::move(*found));
    }
  }
  return out;
}

}  // namespace holdfast::agent
