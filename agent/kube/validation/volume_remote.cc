// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/volume.pb.h"
#include "k8s/core/v1/volume_remote.pb.h"

namespace holdfast::agent::kube {
namespace {

void CheckNfs(const corev1::NFSVolumeSource& source, const std::string& path, Report* report) {
  if (source.server().empty()) report->Required(Child(path, "server"));
  if (source.path().empty()) report->Required(Child(path, "path"));
  if (!source.path().starts_with('/')) {
    report->Invalid(Child(path, "path"), source.path(), "must be an absolute path");
  }
}

void CheckIscsi(const corev1::ISCSIVolumeSource& source, const std::string& path, Report* report) {
  if (source.targetportal().empty()) report->Required(Child(path, "targetPortal"));
  if (source.iqn().empty()) {
    report->Required(Child(path, "iqn"));
  } else if (!source.iqn().starts_with("iqn.") && !source.iqn().starts_with("eui.") &&
             !source.iqn().starts_with("naa.")) {
    report->Invalid(Child(path, "iqn"), source.iqn(),
                    "must be valid format starting with iqn, eui, or naa");
  }
  if (source.lun() < 0 || source.lun() > 255) {
    report->InvalidNumber(Child(path, "lun"), source.lun(), InclusiveRange(0, 255));
  }
}

void CheckFc(const corev1::FCVolumeSource& source, const std::string& path, Report* report) {
  const bool names = !source.targetwwns().empty();
  if (!names && source.wwids().empty()) {
    report->Required(Child(path, "targetWWNs"),
                     "must specify either targetWWNs or wwids, but not both");
  }
  if (names && !source.has_lun()) {
    report->Required(Child(path, "lun"), "lun is required if targetWWNs is specified");
  }
  if (source.lun() < 0 || source.lun() > 255) {
    report->InvalidNumber(Child(path, "lun"), source.lun(), InclusiveRange(0, 255));
  }
}

void CheckCsi(const corev1::CSIVolumeSource& source, const std::string& path, Report* report) {
  if (source.driver().empty()) {
    report->Required(Child(path, "driver"));
  } else {
    report->InvalidEach(Child(path, "driver"), source.driver(),
                        CheckDns1123Subdomain(source.driver()));
  }
}

void CheckEphemeral(const corev1::EphemeralVolumeSource& source, const std::string& path,
                    Report* report) {
  if (!source.has_volumeclaimtemplate()) {
    return report->Required(Child(path, "volumeClaimTemplate"));
  }
  const std::string spec = Child(path, "volumeClaimTemplate.spec");
  const corev1::PersistentVolumeClaimSpec& claim = source.volumeclaimtemplate().spec();
  if (claim.accessmodes().empty()) {
    report->Required(Child(spec, "accessModes"), "at least 1 access mode is required");
  }
  if (!claim.resources().requests().contains("storage")) {
    report->Required(Key(Child(spec, "resources"), "storage"));
  }
}

}  // namespace

// Sources without a rule of their own here have no part in the node's work: they are for plugins
// that Kubernetes itself has removed from the tree.
void CheckRemoteVolume(const corev1::VolumeSource& source, const std::string& path,
                       Report* report) {
  if (source.has_persistentvolumeclaim() && source.persistentvolumeclaim().claimname().empty()) {
    report->Required(Child(path, "claimName"));
  }
  if (source.has_nfs()) CheckNfs(source.nfs(), path, report);
  if (source.has_iscsi()) CheckIscsi(source.iscsi(), path, report);
  if (source.has_fc()) CheckFc(source.fc(), path, report);
  if (source.has_csi()) CheckCsi(source.csi(), path, report);
  if (source.has_ephemeral()) CheckEphemeral(source.ephemeral(), path, report);
}

}  // namespace holdfast::agent::kube
