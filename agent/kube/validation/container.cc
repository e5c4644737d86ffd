// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "agent/kube/pod_resources.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int kMostRestartRules = 20;
constexpr int kMostExitCodes = 255;

void CheckResizePolicy(const corev1::Container& container, const PodContext& pod,
                       const std::string& path, Report* report) {
  std::set<std::string> names;
  for (int i = 0; i < container.resizepolicy_size(); ++i) {
    const corev1::ContainerResizePolicy& policy = container.resizepolicy(i);
    const std::string here = Index(path, i);
    if (!names.insert(policy.resourcename()).second) {
      report->Duplicate(here, policy.resourcename());
    }
    report->OneOf(Child(here, "resourceName"), policy.resourcename(), {"cpu", "memory"});
    report->OneOf(Child(here, "restartPolicy"), policy.restartpolicy(),
                  {"NotRequired", "RestartContainer"});
    if (pod.spec.restartpolicy() == "Never" && policy.restartpolicy() != "NotRequired") {
      report->Invalid(Child(here, "restartPolicy"), policy.restartpolicy(),
                      "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
    }
  }
}

void CheckRestartRules(const corev1::Container& container, bool init, const std::string& path,
                       Report* report) {
  const std::string rules = Child(path, "restartPolicyRules");
  const int count = container.restartpolicyrules_size();
  if (container.has_restartpolicy()) {
    report->OneOfShown(Child(path, "restartPolicy"), container.restartpolicy(),
                       {"Always", "Never", "OnFailure"});
  } else if (count > 0) {
    report->Required(Child(path, "restartPolicy"),
                     "must specify restartPolicy when restart rules are used");
    if (init) return;  // nothing says whether it is a sidecar
  }
  if (count > kMostRestartRules) report->TooMany(rules, count, kMostRestartRules);
  for (int i = 0; i < count; ++i) {
    const corev1::ContainerRestartRule& rule = container.restartpolicyrules(i);
    const std::string here = Index(rules, i);
    report->OneOfShown(Child(here, "action"), rule.action(), {"Restart", "RestartAllContainers"});
    if (!rule.has_exitcodes()) {
      report->Required(Child(here, "exitCodes"), "must be specified");
      continue;
    }
    report->OneOfShown(Child(here, "exitCodes.operator"), rule.exitcodes().operator_(),
                       {"In", "NotIn"});
    if (rule.exitcodes().values_size() > kMostExitCodes) {
      report->TooMany(Child(here, "exitCodes.values"), rule.exitcodes().values_size(),
                      kMostExitCodes);
    }
  }
}

void CheckImage(const std::string& image, const std::string& path, Report* report) {
  if (image.empty()) return report->Required(path);
  const bool padded =
      image.find_first_of(" \t\r\n") == 0 || image.find_last_of(" \t\r\n") == image.size() - 1;
  if (padded) report->Invalid(path, image, "must not have leading or trailing whitespace");
}

void CheckCommon(const corev1::Container& container, const PodContext& pod, const std::string& path,
                 Report* report) {
  if (container.name().empty()) {
    report->Required(Child(path, "name"));
  } else {
    report->InvalidEach(Child(path, "name"), container.name(), CheckDns1123Label(container.name()));
  }
  CheckImage(container.image(), Child(path, "image"), report);
  report->OneOf(Child(path, "terminationMessagePolicy"), container.terminationmessagepolicy(),
                {"File", "FallbackToLogsOnError"});
  CheckPorts(container, Child(path, "ports"), report);
  CheckEnv(container, path, report);
  CheckMounts(container, pod, path, report);
  report->OneOf(Child(path, "imagePullPolicy"), container.imagepullpolicy(),
                {"Always", "IfNotPresent", "Never"});
  CheckResources(container.resources(), pod, Child(path, "resources"), report);
  CheckResizePolicy(container, pod, Child(path, "resizePolicy"), report);
  if (container.has_securitycontext()) {
    CheckSecurityContext(container.securitycontext(), pod.spec, Child(path, "securityContext"),
                         report);
  }
}

// Only a container that is there to stay can be restarted for a change of its resources.
void ForbidRestartOnResize(const corev1::Container& container, const std::string& path,
                           Report* report) {
  for (int i = 0; i < container.resizepolicy_size(); ++i) {
    if (container.resizepolicy(i).restartpolicy() != "RestartContainer") continue;
    report->Invalid(Child(Index(Child(path, "resizePolicy"), i), "restartPolicy"),
                    "RestartContainer",
                    "must not be set to 'RestartContainer' for non-sidecar initContainers");
  }
}

void CheckHooks(const corev1::Container& container, const PodContext& pod, const std::string& path,
                Report* report) {
  if (container.has_lifecycle()) {
    CheckLifecycle(container.lifecycle(), pod, Child(path, "lifecycle"), report);
  }
  CheckProbes(container, pod, path, report);
}

void ForbidHooks(const corev1::Container& container, const std::string& path, Report* report) {
  const auto forbid = [&](bool present, std::string_view field) {
    if (present) {
      report->Forbidden(Child(path, field),
                        "may not be set for init containers without restartPolicy=Always");
    }
  };
  forbid(container.has_lifecycle(), "lifecycle");
  forbid(container.has_livenessprobe(), "livenessProbe");
  forbid(container.has_readinessprobe(), "readinessProbe");
  forbid(container.has_startupprobe(), "startupProbe");
}

// Two containers that run at the same time cannot have the same port of the host.
void CheckHostPorts(const corev1::Container& container, const std::string& path,
                    std::set<std::string>& taken, Report* report) {
  for (int i = 0; i < container.ports_size(); ++i) {
    const corev1::ContainerPort& port = container.ports(i);
    if (port.hostport() == 0) continue;
    const std::string key = StrCat(port.protocol(), "/", port.hostip(), "/", port.hostport());
    if (!taken.insert(key).second) {
      report->Duplicate(Child(Index(Child(path, "ports"), i), "hostPort"), key);
    }
  }
}

}  // namespace

void CheckContainers(const PodContext& pod, Report* report) {
  const corev1::PodSpec& spec = pod.spec;
  std::set<std::string> names;
  std::set<std::string> host_ports;
  if (spec.containers().empty()) report->Required("spec.containers");
  for (int i = 0; i < spec.containers_size(); ++i) {
    const corev1::Container& container = spec.containers(i);
    const std::string path = Index("spec.containers", i);
    CheckCommon(container, pod, path, report);
    if (!names.insert(container.name()).second) {
      report->Duplicate(Child(path, "name"), container.name());
    }
    CheckHooks(container, pod, path, report);
    CheckRestartRules(container, false, path, report);
    CheckHostPorts(container, path, host_ports, report);
    CheckFileKeyVolumes(pod, container, path, report);
  }
  for (int i = 0; i < spec.initcontainers_size(); ++i) {
    const corev1::Container& container = spec.initcontainers(i);
    const std::string path = Index("spec.initContainers", i);
    CheckCommon(container, pod, path, report);
    CheckRestartRules(container, true, path, report);
    if (!names.insert(container.name()).second && !container.name().empty()) {
      report->Duplicate(Child(path, "name"), container.name());
    }
    if (IsSidecar(container)) {
      CheckHooks(container, pod, path, report);
    } else {
      ForbidHooks(container, path, report);
      ForbidRestartOnResize(container, path, report);
    }
    std::set<std::string> own_ports;  // the others run before or after it
    CheckHostPorts(container, path, own_ports, report);
    CheckFileKeyVolumes(pod, container, path, report);
  }
}

}  // namespace holdfast::agent::kube
