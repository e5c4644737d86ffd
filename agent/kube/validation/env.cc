// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/container.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/volume.pb.h"

namespace holdfast::agent::kube {
namespace {

// The key of a ConfigMap or Secret; both selectors have the same fields.
template <class Selector>
void CheckKeyRef(const Selector& selector, const std::string& path, Report* report) {
  const std::string& name = selector.localobjectreference().name();
  report->InvalidEach(Child(path, "name"), name, CheckDns1123Subdomain(name));
  if (selector.key().empty()) {
    report->Required(Child(path, "key"));
  } else {
    report->InvalidEach(Child(path, "key"), selector.key(), CheckConfigKey(selector.key()));
  }
}

void CheckFileKeyRef(const corev1::FileKeySelector& selector, const std::string& path,
                     Report* report) {
  if (selector.key().empty()) {
    report->Required(Child(path, "key"));
  } else {
    report->InvalidEach(Child(path, "key"), selector.key(), CheckEnvName(selector.key()));
  }
  if (selector.volumename().empty()) {
    report->Required(Child(path, "volumeName"));
  } else {
    report->InvalidEach(Child(path, "volumeName"), selector.volumename(),
                        CheckDns1123Label(selector.volumename()));
  }
  if (selector.path().empty()) {
    report->Required(Child(path, "path"));
  } else {
    CheckNoBacksteps(selector.path(), Child(path, "path"), report);
  }
}

void CheckValueFrom(const corev1::EnvVar& variable, const std::string& path, Report* report) {
  const corev1::EnvVarSource& source = variable.valuefrom();
  if (source.has_fieldref()) {
    CheckFieldRef(source.fieldref(),
                  {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
                   "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
                   "status.podIPs"},
                  Child(path, "fieldRef"), report);
  }
  if (source.has_resourcefieldref()) {
    CheckResourceFieldRef(source.resourcefieldref(), false, Child(path, "resourceFieldRef"),
                          report);
  }
  if (source.has_configmapkeyref()) {
    CheckKeyRef(source.configmapkeyref(), Child(path, "configMapKeyRef"), report);
  }
  if (source.has_secretkeyref()) {
    CheckKeyRef(source.secretkeyref(), Child(path, "secretKeyRef"), report);
  }
  if (source.has_filekeyref()) {
    CheckFileKeyRef(source.filekeyref(), Child(path, "fileKeyRef"), report);
  }
  const int sources = source.has_fieldref() + source.has_resourcefieldref() +
                      source.has_configmapkeyref() + source.has_secretkeyref() +
                      source.has_filekeyref();
  if (sources == 0) {
    report->Invalid(path, "",
                    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
                    "`secretKeyRef` or `fileKeyRef`");
  } else if (!variable.value().empty()) {
    report->Invalid(path, "", "may not be specified when `value` is not empty");
  } else if (sources > 1) {
    report->Invalid(path, "", "may not have more than one field specified at a time");
  }
}

void CheckSourceName(const std::string& name, const std::string& path, Report* report) {
  if (name.empty()) return report->Required(path);
  report->InvalidEach(path, name, CheckDns1123Subdomain(name));
}

void CheckEnvFrom(const corev1::EnvFromSource& source, const std::string& path, Report* report) {
  if (!source.prefix().empty()) {
    report->InvalidEach(Child(path, "prefix"), source.prefix(), CheckEnvName(source.prefix()));
  }
  if (source.has_configmapref()) {
    CheckSourceName(source.configmapref().localobjectreference().name(),
                    Child(path, "configMapRef.name"), report);
  }
  if (source.has_secretref()) {
    CheckSourceName(source.secretref().localobjectreference().name(), Child(path, "secretRef.name"),
                    report);
  }
  const int sources = source.has_configmapref() + source.has_secretref();
  if (sources == 0) {
    report->Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
  } else if (sources > 1) {
    report->Invalid(path, "", "may not have more than one field specified at a time");
  }
}

}  // namespace

void CheckEnv(const corev1::Container& container, const std::string& path, Report* report) {
  for (int i = 0; i < container.env_size(); ++i) {
    const corev1::EnvVar& variable = container.env(i);
    const std::string here = Index(Child(path, "env"), i);
    if (variable.name().empty()) {
      report->Required(Child(here, "name"));
    } else {
      report->InvalidEach(Child(here, "name"), variable.name(), CheckEnvName(variable.name()));
    }
    if (variable.has_valuefrom()) CheckValueFrom(variable, Child(here, "valueFrom"), report);
  }
  for (int i = 0; i < container.envfrom_size(); ++i) {
    CheckEnvFrom(container.envfrom(i), Index(Child(path, "envFrom"), i), report);
  }
}

void CheckFileKeyVolumes(const PodContext& pod, const corev1::Container& container,
                         const std::string& path, Report* report) {
  for (int i = 0; i < container.env_size(); ++i) {
    if (!container.env(i).valuefrom().has_filekeyref()) continue;
    const std::string& name = container.env(i).valuefrom().filekeyref().volumename();
    const std::string here = Child(Index(Child(path, "env"), i), "valueFrom.fileKeyRef.volumeName");
    const corev1::Volume* found = nullptr;  // also one with faults of its own; the last of a name
    for (const corev1::Volume& volume : pod.spec.volumes()) {
      if (volume.name() == name) found = &volume;
    }
    if (found == nullptr) {
      report->NotFound(here, name);
    } else if (!found->volumesource().has_emptydir()) {
      report->Invalid(here, name, "referenced volume must be of type emptyDir");
    }
  }
}

}  // namespace holdfast::agent::kube
