// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/container.pb.h"
#include "k8s/intstr/int_or_string.pb.h"

namespace holdfast::agent::kube {
namespace {

void CheckNumber(int32_t port, const std::string& path, Report* report) {
  if (port < 1 || port > 65535) report->InvalidNumber(path, port, InclusiveRange(1, 65535));
}

}  // namespace

void CheckPorts(const corev1::Container& container, const std::string& path, Report* report) {
  std::set<std::string> names;
  for (int i = 0; i < container.ports_size(); ++i) {
    const corev1::ContainerPort& port = container.ports(i);
    const std::string here = Index(path, i);
    if (!port.name().empty()) {
      const Faults faults = CheckPortName(port.name());
      report->InvalidEach(Child(here, "name"), port.name(), faults);
      if (faults.empty() && !names.insert(port.name()).second) {
        report->Duplicate(Child(here, "name"), port.name());
      }
    }
    if (port.containerport() == 0) {
      report->Required(Child(here, "containerPort"));
    } else {
      CheckNumber(port.containerport(), Child(here, "containerPort"), report);
    }
    if (port.hostport() != 0) CheckNumber(port.hostport(), Child(here, "hostPort"), report);
    report->OneOf(Child(here, "protocol"), port.protocol(), {"SCTP", "TCP", "UDP"});
    // Without a port of the host its address has no meaning, and Kubernetes takes anything.
    if (!port.hostip().empty() && port.hostport() != 0) {
      report->InvalidEach(Child(here, "hostIP"), port.hostip(), CheckIpAddress(port.hostip()));
    }
  }
}

void CheckPortReference(const ::k8s::io::apimachinery::pkg::util::intstr::IntOrString& port,
                        const std::string& path, Report* report) {
  if (port.type() == 1) {
    report->InvalidEach(path, port.strval(), CheckPortName(port.strval()));
  } else {
    CheckNumber(port.intval(), path, report);
  }
}

}  // namespace holdfast::agent::kube
