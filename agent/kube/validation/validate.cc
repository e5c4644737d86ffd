// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/validate.h"

#include <limits>
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int64_t kMostSeconds = std::numeric_limits<int32_t>::max();

void CheckSubdomain(const std::string& name, const std::string& path, Report* report) {
  if (!name.empty()) report->InvalidEach(path, name, CheckDns1123Subdomain(name));
}

void CheckGates(const corev1::PodSpec& spec, Report* report) {
  for (int i = 0; i < spec.readinessgates_size(); ++i) {
    const std::string& type = spec.readinessgates(i).conditiontype();
    report->InvalidEach(Child(Index("spec.readinessGates", i), "conditionType"), type,
                        CheckQualifiedName(type));
  }
  std::set<std::string> names;
  for (int i = 0; i < spec.schedulinggates_size(); ++i) {
    const std::string& name = spec.schedulinggates(i).name();
    const std::string here = Index("spec.schedulingGates", i);
    report->InvalidEach(here, name, CheckQualifiedName(name));
    if (!names.insert(name).second) report->Duplicate(here, name);
  }
  if (!spec.nodename().empty() && !spec.schedulinggates().empty()) {
    report->Forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
  }
}

void CheckTimes(const corev1::PodSpec& spec, Report* report) {
  if (!spec.has_terminationgraceperiodseconds()) {
    report->Required("spec.terminationGracePeriodSeconds");
  }
  const int64_t deadline = spec.activedeadlineseconds();
  if (spec.has_activedeadlineseconds() && (deadline < 1 || deadline > kMostSeconds)) {
    report->InvalidNumber("spec.activeDeadlineSeconds", deadline, InclusiveRange(1, kMostSeconds));
  }
}

void CheckOs(const corev1::PodSpec& spec, Report* report) {
  if (!spec.has_os()) return;
  if (spec.os().name().empty()) return report->Required("spec.os.name");
  if (report->OneOf("spec.os", spec.os().name(), {"linux", "windows"})) CheckSystem(spec, report);
}

void CheckRest(const corev1::PodSpec& spec, Report* report) {
  report->OneOf("spec.restartPolicy", spec.restartpolicy(), {"Always", "OnFailure", "Never"});
  CheckLabels(Sorted(spec.nodeselector()), "spec.nodeSelector", report);
  CheckGates(spec, report);
  CheckSubdomain(spec.serviceaccountname(), "spec.serviceAccountName", report);
  CheckSubdomain(spec.nodename(), "spec.nodeName", report);
  CheckSubdomain(spec.priorityclassname(), "spec.priorityClassName", report);
  if (spec.has_runtimeclassname()) {
    report->InvalidEach("spec.runtimeClassName", spec.runtimeclassname(),
                        CheckDns1123Subdomain(spec.runtimeclassname()));
  }
  if (spec.has_preemptionpolicy()) {
    report->OneOf("spec.preemptionPolicy", spec.preemptionpolicy(),
                  {"PreemptLowerPriority", "Never"});
  }
  CheckOs(spec, report);
  if (!spec.ephemeralcontainers().empty()) {
    report->Forbidden("spec.ephemeralContainers", "cannot be set on create");
  }
}

// A token is of a service account; without one there is none to give.
void CheckTokens(const corev1::PodSpec& spec, Report* report) {
  if (!spec.serviceaccountname().empty()) return;
  for (int i = 0; i < spec.volumes_size(); ++i) {
    const auto& sources = spec.volumes(i).volumesource().projected().sources();
    for (int k = 0; k < sources.size(); ++k) {
      if (!sources[k].has_serviceaccounttoken()) continue;
      report->Forbidden(Child(Index(Child(Index("spec.volumes", i), "projected.sources"), k),
                              "serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set");
    }
  }
}

}  // namespace

FieldErrors ValidatePod(const corev1::Pod& pod) {
  Report report;
  const corev1::PodSpec& spec = pod.spec();
  CheckObjectMeta(pod.metadata(), CheckDns1123Subdomain, "metadata", &report);
  CheckPodAnnotations(pod, &report);
  CheckTimes(spec, &report);
  const PodContext context{spec, CheckVolumes(pod, &report)};
  CheckTokens(spec, &report);
  CheckPodClaims(spec, &report);
  CheckContainers(context, &report);
  CheckPodResources(spec, &report);
  CheckOverhead(spec, &report);
  CheckPodNetwork(spec, &report);
  CheckPodSecurity(spec, &report);
  CheckHostProcess(spec, &report);
  CheckAffinity(pod, &report);
  CheckTolerations(spec, &report);
  CheckTopologySpread(pod, &report);
  CheckRest(spec, &report);
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
