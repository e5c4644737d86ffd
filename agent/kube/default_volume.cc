// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/default_volume.h"

#include <google/protobuf/descriptor.h>

#include "agent/kube/defaulting.h"
#include "k8s/core/v1/volume.pb.h"
#include "k8s/core/v1/volume_remote.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int32_t kDefaultMode = 0644;
constexpr int64_t kTokenSeconds = 3600;

// Without any source a volume is an emptyDir.
bool HasSource(const corev1::VolumeSource& source) {
  const auto* descriptor = source.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    if (source.GetReflection()->HasField(source, descriptor->field(i))) return true;
  }
  return false;
}

template <class Source>
void DefaultMode(Source* source) {
  if (!source->has_defaultmode()) source->set_defaultmode(kDefaultMode);
}

template <class Items>
void DefaultFieldRefs(Items* items) {
  for (corev1::DownwardAPIVolumeFile& file : *items) {
    if (file.has_fieldref() && file.fieldref().apiversion().empty()) {
      file.mutable_fieldref()->set_apiversion("v1");
    }
  }
}

void DefaultProjected(corev1::ProjectedVolumeSource* projected) {
  DefaultMode(projected);
  for (corev1::VolumeProjection& source : *projected->mutable_sources()) {
    if (source.has_downwardapi()) DefaultFieldRefs(source.mutable_downwardapi()->mutable_items());
    if (source.has_serviceaccounttoken() && !source.serviceaccounttoken().has_expirationseconds()) {
      source.mutable_serviceaccounttoken()->set_expirationseconds(kTokenSeconds);
    }
  }
}

void DefaultRemote(corev1::VolumeSource* source) {
  if (source->has_iscsi() && source->iscsi().iscsiinterface().empty()) {
    source->mutable_iscsi()->set_iscsiinterface("default");
  }
  if (source->has_rbd()) {
    corev1::RBDVolumeSource& rbd = *source->mutable_rbd();
    if (rbd.pool().empty()) rbd.set_pool("rbd");
    if (rbd.user().empty()) rbd.set_user("admin");
    if (rbd.keyring().empty()) rbd.set_keyring("/etc/ceph/keyring");
  }
  if (source->has_azuredisk()) {
    corev1::AzureDiskVolumeSource& disk = *source->mutable_azuredisk();
    if (!disk.has_cachingmode()) disk.set_cachingmode("ReadWrite");
    if (!disk.has_fstype()) disk.set_fstype("ext4");
    if (!disk.has_readonly()) disk.set_readonly(false);
    if (!disk.has_kind()) disk.set_kind("Shared");
  }
  if (source->has_scaleio()) {
    corev1::ScaleIOVolumeSource& disk = *source->mutable_scaleio();
    if (disk.storagemode().empty()) disk.set_storagemode("ThinProvisioned");
    if (disk.fstype().empty()) disk.set_fstype("xfs");
  }
  if (source->has_ephemeral() && source->ephemeral().has_volumeclaimtemplate()) {
    auto& spec = *source->mutable_ephemeral()->mutable_volumeclaimtemplate()->mutable_spec();
    if (!spec.has_volumemode()) spec.set_volumemode("Filesystem");
  }
}

}  // namespace

void DefaultVolume(corev1::Volume* volume) {
  corev1::VolumeSource& source = *volume->mutable_volumesource();
  if (!HasSource(source)) (void)source.mutable_emptydir();
  if (source.has_configmap()) DefaultMode(source.mutable_configmap());
  if (source.has_secret()) DefaultMode(source.mutable_secret());
  if (source.has_projected()) DefaultProjected(source.mutable_projected());
  if (source.has_downwardapi()) {
    DefaultMode(source.mutable_downwardapi());
    DefaultFieldRefs(source.mutable_downwardapi()->mutable_items());
  }
  if (source.has_hostpath() && !source.hostpath().has_type())
    source.mutable_hostpath()->set_type("");
  if (source.has_image() && source.image().pullpolicy().empty()) {
    source.mutable_image()->set_pullpolicy(DefaultPullPolicy(source.image().reference()));
  }
  DefaultRemote(&source);
}

}  // namespace holdfast::agent::kube
