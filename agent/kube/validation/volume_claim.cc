// SPDX-License-Identifier: Apache-2.0
// The claim that an ephemeral volume is made from.
#include "agent/kube/codec.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/volume_remote.pb.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr char kOnlyPod[] = "ReadWriteOncePod";

// Only labels and annotations are taken over.
void CheckTemplateMetadata(const metav1::ObjectMeta& metadata, const std::string& path,
                           Report* report) {
  CheckAnnotations(Sorted(metadata.annotations()), Child(path, "annotations"), report);
  CheckLabels(Sorted(metadata.labels()), Child(path, "labels"), report);
  for (const Member& field : ToTree(metadata).members) {
    if (field.key == "labels" || field.key == "annotations") continue;
    report->Forbidden(Child(path, field.key), "cannot be set");
  }
}

void CheckAccessModes(const corev1::PersistentVolumeClaimSpec& claim, const std::string& path,
                      Report* report) {
  if (claim.accessmodes().empty()) {
    report->Required(path, "at least 1 access mode is required");
  }
  const Words words = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", kOnlyPod};
  bool only = false;
  bool others = false;
  for (int i = 0; i < claim.accessmodes_size(); ++i) {
    const std::string& mode = claim.accessmodes(i);
    const bool known = report->OneOfShown(Index(path, i), mode, words);
    only = only || mode == kOnlyPod;
    others = others || (known && mode != kOnlyPod);
  }
  if (only && others) {
    report->Forbidden(path, "may not use ReadWriteOncePod with other access modes");
  }
}

void CheckStorage(const corev1::PersistentVolumeClaimSpec& claim, const std::string& path,
                  Report* report) {
  const auto storage = claim.resources().requests().find("storage");
  if (storage == claim.resources().requests().end()) return report->Required(path);
  const std::string text = storage->second.string().empty() ? "0" : storage->second.string();
  const auto amount = Amount::Parse(text);
  if (!amount) return report->Invalid(path, text, amount.error().message());
  if (amount->IsNegative() || amount->IsZero()) {
    report->Invalid(path, text, "must be greater than zero");
  }
}

void CheckClass(const std::string& name, const std::string& path, Report* report) {
  if (!name.empty()) report->InvalidEach(path, name, CheckDns1123Subdomain(name));
}

// dataSource and dataSourceRef have the same fields, but for the namespace.
template <class Reference>
void CheckSource(const Reference& source, const std::string& path, Report* report) {
  if (source.name().empty()) report->Required(Child(path, "name"));
  if (source.kind().empty()) report->Required(Child(path, "kind"));
  if (source.apigroup().empty() && source.kind() != "PersistentVolumeClaim") {
    report->Invalid(path, source.kind(),
                    "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
  }
  CheckClass(source.apigroup(), Child(path, "apiGroup"), report);
}

// An API server without cross-namespace sources drops dataSourceRef with a namespace of its own;
// without the namespace the two must say the same. One is copied to the other when it is missing.
void CheckSources(const corev1::PersistentVolumeClaimSpec& claim, const std::string& path,
                  Report* report) {
  if (claim.has_datasource()) CheckSource(claim.datasource(), Child(path, "dataSource"), report);
  if (!claim.has_datasourceref()) return;
  const corev1::TypedObjectReference& ref = claim.datasourceref();
  CheckSource(ref, Child(path, "dataSourceRef"), report);
  if (!ref.namespace_().empty()) {
    report->InvalidEach(Child(path, "dataSourceRef.namespace"), ref.namespace_(),
                        CheckDns1123Label(ref.namespace_()));
  }
  if (!claim.has_datasource()) return;
  const corev1::TypedLocalObjectReference& source = claim.datasource();
  if (!ref.namespace_().empty()) {
    report->InvalidLiteral(path, Quoted(Child(path, "dataSource")),
                           "may not be specified when dataSourceRef.namespace is specified");
  } else if (source.kind() != ref.kind() || source.name() != ref.name() ||
             source.apigroup() != ref.apigroup() || source.has_apigroup() != ref.has_apigroup()) {
    report->InvalidLiteral(path, Quoted(Child(path, "dataSource")), "must match dataSourceRef");
  }
}

void CheckClaim(const corev1::PersistentVolumeClaimSpec& claim, const std::string& path,
                Report* report) {
  CheckAccessModes(claim, Child(path, "accessModes"), report);
  if (claim.has_selector()) CheckLabelSelector(claim.selector(), Child(path, "selector"), report);
  CheckStorage(claim, Key(Child(path, "resources"), "storage"), report);
  CheckClass(claim.storageclassname(), Child(path, "storageClassName"), report);
  if (claim.has_volumemode()) {
    report->OneOfShown(Child(path, "volumeMode"), claim.volumemode(), {"Block", "Filesystem"});
  }
  CheckSources(claim, path, report);
  CheckClass(claim.volumeattributesclassname(), Child(path, "volumeAttributesClassName"), report);
}

}  // namespace

void CheckEphemeral(const corev1::EphemeralVolumeSource& source, const std::string& path,
                    Report* report) {
  const std::string claim = Child(path, "volumeClaimTemplate");
  if (!source.has_volumeclaimtemplate()) return report->Required(claim);
  CheckTemplateMetadata(source.volumeclaimtemplate().metadata(), Child(claim, "metadata"), report);
  CheckClaim(source.volumeclaimtemplate().spec(), Child(claim, "spec"), report);
}

}  // namespace holdfast::agent::kube
