// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "holdfast/base/ascii.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kAnnotationBytes = 256u << 10;

// "apps/v1" has a version, "apps/" none.
bool HasVersion(const std::string& api_version) {
  const size_t slash = api_version.find('/');
  if (slash == std::string::npos) return !api_version.empty();
  const bool parts = api_version.find('/', slash + 1) == std::string::npos;
  return parts && slash + 1 < api_version.size();
}

void CheckOwner(const metav1::OwnerReference& owner, const std::string& path, Report* report) {
  if (!HasVersion(owner.apiversion())) {
    report->Invalid(Child(path, "apiVersion"), owner.apiversion(), "version must not be empty");
  }
  if (owner.kind().empty()) report->Invalid(Child(path, "kind"), "", "must not be empty");
  if (owner.name().empty()) report->Invalid(Child(path, "name"), "", "must not be empty");
  if (owner.uid().empty()) report->Invalid(Child(path, "uid"), "", "must not be empty");
  if (owner.apiversion() == "v1" && owner.kind() == "Event") {
    report->InvalidLiteral(path, ShownJson(owner),
                           "/v1, Kind=Event is disallowed from being an owner");
  }
}

void CheckOwners(const metav1::ObjectMeta& metadata, const std::string& path, Report* report) {
  std::string controller;
  for (int i = 0; i < metadata.ownerreferences_size(); ++i) {
    const metav1::OwnerReference& owner = metadata.ownerreferences(i);
    CheckOwner(owner, Index(path, i), report);
    if (!owner.controller()) continue;
    const std::string name = StrCat(owner.kind(), "/", owner.name());
    if (!controller.empty()) {
      report->InvalidLiteral(path, ShownList(metadata.ownerreferences()),
                             StrCat("Only one reference can have Controller set to true. Found "
                                    "\"true\" in references for ",
                                    controller, " and ", name));
    } else {
      controller = name;
    }
  }
}

// Besides the three standard ones a finalizer is of somebody's domain.
void CheckFinalizers(const metav1::ObjectMeta& metadata, const std::string& path, Report* report) {
  bool orphan = false;
  bool foreground = false;
  for (int i = 0; i < metadata.finalizers_size(); ++i) {
    const std::string& finalizer = metadata.finalizers(i);
    const std::string here = Index(path, i);
    report->InvalidEach(here, finalizer, CheckQualifiedName(finalizer));
    const bool standard =
        finalizer == "orphan" || finalizer == "foregroundDeletion" || finalizer == "kubernetes";
    if (finalizer.find('/') == std::string::npos && !standard) {
      report->Invalid(here, finalizer,
                      "name is neither a standard finalizer name nor is it fully qualified");
    }
    orphan = orphan || finalizer == "orphan";
    foreground = foreground || finalizer == "foregroundDeletion";
  }
  if (orphan && foreground) {
    report->InvalidLiteral(path, ShownList(metadata.finalizers()),
                           "finalizer foregroundDeletion and orphan cannot be both set");
  }
}

// A name that is only the front of one may end with a dash.
std::string WithoutDash(const std::string& prefix) {
  return prefix.size() > 1 && prefix.ends_with('-') ? prefix.substr(0, prefix.size() - 2) + "a"
                                                    : prefix;
}

}  // namespace

void CheckAnnotations(const std::map<std::string, std::string>& annotations,
                      const std::string& path, Report* report) {
  size_t bytes = 0;
  for (const auto& [key, value] : annotations) {
    report->InvalidEach(path, key, CheckQualifiedName(ToLower(key)));
    bytes += key.size() + value.size();
  }
  if (bytes > kAnnotationBytes) report->TooLong(path, kAnnotationBytes);
}

void CheckLabels(const std::map<std::string, std::string>& labels, const std::string& path,
                 Report* report) {
  for (const auto& [key, value] : labels) {
    report->InvalidEach(path, key, CheckQualifiedName(key));
    report->InvalidEach(path, value, CheckLabelValue(value));
  }
}

void CheckObjectMeta(const metav1::ObjectMeta& metadata, Faults (*check_name)(std::string_view),
                     const std::string& path, Report* report) {
  const std::string& prefix = metadata.generatename();
  if (!prefix.empty()) {
    report->InvalidEach(Child(path, "generateName"), prefix, check_name(WithoutDash(prefix)));
  }
  if (metadata.name().empty()) {
    report->Required(Child(path, "name"), "name or generateName is required");
  } else {
    report->InvalidEach(Child(path, "name"), metadata.name(), check_name(metadata.name()));
  }
  if (metadata.namespace_().empty()) {
    report->Required(Child(path, "namespace"));
  } else {
    report->InvalidEach(Child(path, "namespace"), metadata.namespace_(),
                        CheckDns1123Label(metadata.namespace_()));
  }
  report->NotNegative(Child(path, "generation"), metadata.generation());
  CheckLabels(Sorted(metadata.labels()), Child(path, "labels"), report);
  CheckAnnotations(Sorted(metadata.annotations()), Child(path, "annotations"), report);
  CheckOwners(metadata, Child(path, "ownerReferences"), report);
  CheckFinalizers(metadata, Child(path, "finalizers"), report);
}

}  // namespace holdfast::agent::kube
