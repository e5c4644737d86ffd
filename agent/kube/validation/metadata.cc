// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kAnnotationBytes = 256u << 10;

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

void CheckAnnotations(const metav1::ObjectMeta& metadata, const std::string& path, Report* report) {
  size_t bytes = 0;
  for (const auto& [key, value] : Sorted(metadata.annotations())) {
    report->InvalidEach(path, key, CheckQualifiedName(Lower(key)));
    bytes += key.size() + value.size();
  }
  if (bytes > kAnnotationBytes) report->TooLong(path, kAnnotationBytes);
}

void CheckOwners(const metav1::ObjectMeta& metadata, const std::string& path, Report* report) {
  for (const metav1::OwnerReference& owner : metadata.ownerreferences()) {
    if (owner.apiversion().empty()) {
      report->Invalid(Child(path, "apiVersion"), "", "version must not be empty");
    }
    if (owner.kind().empty()) report->Invalid(Child(path, "kind"), "", "must not be empty");
    if (owner.name().empty()) report->Invalid(Child(path, "name"), "", "must not be empty");
    if (owner.uid().empty()) report->Invalid(Child(path, "uid"), "", "must not be empty");
  }
}

// A name that is only the front of one may end with a dash.
std::string WithoutDash(const std::string& prefix) {
  return prefix.size() > 1 && prefix.ends_with('-') ? prefix.substr(0, prefix.size() - 2) + "a"
                                                    : prefix;
}

}  // namespace

void CheckLabels(const std::map<std::string, std::string>& labels, const std::string& path,
                 Report* report) {
  for (const auto& [key, value] : labels) {
    report->InvalidEach(path, key, CheckQualifiedName(key));
    report->InvalidEach(path, value, CheckLabelValue(value));
  }
}

void CheckObjectMeta(const metav1::ObjectMeta& metadata, const std::string& path, Report* report) {
  const std::string& prefix = metadata.generatename();
  if (!prefix.empty()) {
    report->InvalidEach(Child(path, "generateName"), prefix,
                        CheckDns1123Subdomain(WithoutDash(prefix)));
  }
  if (metadata.name().empty()) {
    report->Required(Child(path, "name"), "name or generateName is required");
  } else {
    report->InvalidEach(Child(path, "name"), metadata.name(),
                        CheckDns1123Subdomain(metadata.name()));
  }
  if (metadata.namespace_().empty()) {
    report->Required(Child(path, "namespace"));
  } else {
    report->InvalidEach(Child(path, "namespace"), metadata.namespace_(),
                        CheckDns1123Label(metadata.namespace_()));
  }
  report->NotNegative(Child(path, "generation"), metadata.generation());
  CheckLabels(Sorted(metadata.labels()), Child(path, "labels"), report);
  CheckAnnotations(metadata, Child(path, "annotations"), report);
  CheckOwners(metadata, Child(path, "ownerReferences"), report);
  for (const std::string& finalizer : metadata.finalizers()) {
    report->InvalidEach(Child(path, "finalizers"), finalizer, CheckQualifiedName(finalizer));
  }
}

}  // namespace holdfast::agent::kube
