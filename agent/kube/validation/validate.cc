// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/validate.h"

#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

void CheckContainers(const corev1::PodSpec& spec, const std::string& path, Report* report) {
  if (spec.containers().empty()) report->Required(path);
  std::set<std::string> names;
  for (int i = 0; i < spec.containers_size(); ++i) {
    const corev1::Container& container = spec.containers(i);
    const std::string here = Index(path, i);
    if (container.name().empty()) {
      report->Required(Child(here, "name"));
    } else {
      report->InvalidEach(Child(here, "name"), container.name(),
                          CheckDns1123Label(container.name()));
    }
    if (container.image().empty()) report->Required(Child(here, "image"));
    if (!names.insert(container.name()).second) {
      report->Duplicate(Child(here, "name"), container.name());
    }
  }
}

}  // namespace

FieldErrors ValidatePod(const corev1::Pod& pod) {
  Report report;
  CheckObjectMeta(pod.metadata(), "metadata", &report);
  CheckContainers(pod.spec(), "spec.containers", &report);
  return report.Take();
}

FieldErrors ValidateStaticPod(const corev1::Pod& pod) {
  Report report;
  if (!pod.spec().ephemeralcontainers().empty()) {
    report.Forbidden("spec.ephemeralContainers", "static pods may not have ephemeral containers");
  }
  if (!pod.spec().serviceaccountname().empty()) {
    report.Forbidden("spec.serviceAccountName", "static pods may not reference serviceaccounts");
  }
  return report.Take();
}

std::vector<Diagnostic> ToDiagnostics(const FieldErrors& errors, const ManifestObject& object) {
  std::vector<Diagnostic> diagnostics;
  for (const FieldError& error : errors) {
    diagnostics.push_back(object.At(error.path, error.Message()));
  }
  return diagnostics;
}

}  // namespace holdfast::agent::kube
