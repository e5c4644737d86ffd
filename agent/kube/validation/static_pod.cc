// SPDX-License-Identifier: Apache-2.0
// What a static pod may not refer to (feature-map 1.1.10).
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/validate.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

void Refuse(bool present, const std::string& path, std::string_view resource, Report* report) {
  if (present) report->Forbidden(path, StrCat("static pods may not reference ", resource));
}

// Containers and ephemeral containers have the same fields.
template <class C>
void CheckContainer(const C& container, const std::string& path, Report* report) {
  for (int i = 0; i < container.env_size(); ++i) {
    const corev1::EnvVarSource& source = container.env(i).valuefrom();
    const std::string here = Child(Index(Child(path, "env"), i), "valueFrom");
    Refuse(source.has_secretkeyref(), Child(here, "secretKeyRef"), "secrets", report);
    Refuse(source.has_configmapkeyref(), Child(here, "configMapKeyRef"), "configmaps", report);
  }
  for (int i = 0; i < container.envfrom_size(); ++i) {
    const corev1::EnvFromSource& source = container.envfrom(i);
    const std::string here = Index(Child(path, "envFrom"), i);
    Refuse(source.has_secretref(), Child(here, "secretRef"), "secrets", report);
    Refuse(source.has_configmapref(), Child(here, "configMapRef"), "configmaps", report);
  }
}

void CheckProjection(const corev1::VolumeProjection& source, const std::string& path,
                     Report* report) {
  Refuse(source.has_configmap(), Child(path, "configMap"), "configmaps (via projected volumes)",
         report);
  Refuse(source.has_secret(), Child(path, "secret"), "secrets (via projected volumes)", report);
  Refuse(source.has_serviceaccounttoken(), Child(path, "serviceAccountToken"),
         "serviceaccounts (via projected volumes)", report);
  Refuse(source.has_clustertrustbundle(), Child(path, "clusterTrustBundle"), "clustertrustbundles",
         report);
  Refuse(source.has_podcertificate(), Child(path, "podCertificate"), "podcertificates", report);
}

void CheckVolume(const corev1::VolumeSource& source, const std::string& path, Report* report) {
  Refuse(source.has_configmap(), Child(path, "configMap"), "configmaps (via configmap volumes)",
         report);
  Refuse(source.has_secret(), Child(path, "secret"), "secrets (via secret volumes)", report);
  Refuse(source.has_csi(), Child(path, "csi"), "csidrivers (via CSI volumes)", report);
  Refuse(source.has_glusterfs(), Child(path, "glusterfs"), "endpoints (via glusterFS volumes)",
         report);
  Refuse(source.has_persistentvolumeclaim(), Child(path, "persistentVolumeClaim"),
         "persistentvolumeclaims", report);
  Refuse(source.has_ephemeral(), Child(path, "ephemeral"),
         "persistentvolumeclaims (via ephemeral volumes)", report);
  Refuse(source.has_azurefile(), Child(path, "azureFile"), "secrets (via azureFile volumes)",
         report);
  for (int i = 0; i < source.projected().sources_size(); ++i) {
    CheckProjection(source.projected().sources(i), Index(Child(path, "projected.sources"), i),
                    report);
  }
}

}  // namespace

FieldErrors ValidateStaticPod(const corev1::Pod& pod) {
  Report report;
  const corev1::PodSpec& spec = pod.spec();
  Refuse(!spec.serviceaccountname().empty(), "spec.serviceAccountName", "serviceaccounts", &report);
  Refuse(!spec.imagepullsecrets().empty(), "spec.imagePullSecrets", "secrets", &report);
  Refuse(!spec.resourceclaims().empty(), "spec.resourceClaims", "resourceclaims", &report);
  for (int i = 0; i < spec.containers_size(); ++i) {
    CheckContainer(spec.containers(i), Index("spec.containers", i), &report);
  }
  for (int i = 0; i < spec.initcontainers_size(); ++i) {
    CheckContainer(spec.initcontainers(i), Index("spec.initContainers", i), &report);
  }
  for (int i = 0; i < spec.volumes_size(); ++i) {
    CheckVolume(spec.volumes(i).volumesource(), Index("spec.volumes", i), &report);
  }
  return report.Take();
}

}  // namespace holdfast::agent::kube
