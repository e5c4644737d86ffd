// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>

#include <set>

#include "agent/kube/schema.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int32_t kMostMode = 0777;

// Secret and ConfigMap volumes and projections have the same items.
template <class Items>
void CheckItems(const Items& items, const std::string& path, Report* report) {
  for (int i = 0; i < items.size(); ++i) {
    const corev1::KeyToPath& item = items[i];
    const std::string here = Index(path, i);
    if (item.key().empty()) report->Required(Child(here, "key"));
    if (item.path().empty()) report->Required(Child(here, "path"));
    CheckFilePath(item.path(), Child(here, "path"), report);
    if (item.has_mode()) CheckFileMode(item.mode(), Child(here, "mode"), report);
  }
}

void CheckPullPolicy(const std::string& policy, const std::string& path, Report* report) {
  report->OneOf(path, policy, {"Always", "IfNotPresent", "Never"});
}

void CheckEmptyDir(const corev1::EmptyDirVolumeSource& source, const std::string& path,
                   Report* report) {
  if (!source.has_sizelimit()) return;
  const auto limit = Amount::Parse(source.sizelimit().string());
  if (!limit || limit->IsNegative()) {
    report->Forbidden(Child(path, "sizeLimit"),
                      "SizeLimit field must be a valid resource quantity");
  }
}

void CheckHostPath(const corev1::HostPathVolumeSource& source, const std::string& path,
                   Report* report) {
  if (source.path().empty()) return report->Required(Child(path, "path"));
  CheckNoBacksteps(source.path(), Child(path, "path"), report);
  if (!source.type().empty()) {
    report->OneOf(Child(path, "type"), source.type(),
                  {"", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
                   "FileOrCreate", "Socket"});
  }
}

void CheckSecret(const corev1::SecretVolumeSource& source, const std::string& path,
                 Report* report) {
  if (source.secretname().empty()) report->Required(Child(path, "secretName"));
  CheckFileMode(source.defaultmode(), Child(path, "defaultMode"), report);
  CheckItems(source.items(), Child(path, "items"), report);
}

void CheckConfigMap(const corev1::ConfigMapVolumeSource& source, const std::string& path,
                    Report* report) {
  if (source.localobjectreference().name().empty()) report->Required(Child(path, "name"));
  CheckFileMode(source.defaultmode(), Child(path, "defaultMode"), report);
  CheckItems(source.items(), Child(path, "items"), report);
}

void CheckDownward(const corev1::DownwardAPIVolumeSource& source, const std::string& path,
                   Report* report) {
  CheckFileMode(source.defaultmode(), Child(path, "defaultMode"), report);
  for (int i = 0; i < source.items_size(); ++i) {
    CheckDownwardFile(source.items(i), Index(Child(path, "items"), i), report);
  }
}

void CheckImage(const corev1::ImageVolumeSource& source, const std::string& path, Report* report) {
  if (source.reference().empty()) report->Required(Child(path, "reference"));
  CheckPullPolicy(source.pullpolicy(), Child(path, "pullPolicy"), report);
}

// What one source of a volume must be like.
void CheckSource(const corev1::VolumeSource& source, std::string_view name, const std::string& path,
                 Report* report) {
  if (name == "hostPath") return CheckHostPath(source.hostpath(), path, report);
  if (name == "secret") return CheckSecret(source.secret(), path, report);
  if (name == "configMap") return CheckConfigMap(source.configmap(), path, report);
  if (name == "downwardAPI") return CheckDownward(source.downwardapi(), path, report);
  if (name == "projected") return CheckProjected(source.projected(), path, report);
  if (name == "image") return CheckImage(source.image(), path, report);
  CheckRemoteVolume(source, path, report);
}

// Exactly one source; each further one is refused by name.
void CheckVolumeSource(const corev1::VolumeSource& source, const std::string& path,
                       Report* report) {
  bool found = source.has_emptydir();  // judged first, as Kubernetes does
  if (found) CheckEmptyDir(source.emptydir(), Child(path, "emptyDir"), report);
  for (const FieldSchema& field : SchemaOf(source.GetDescriptor()).fields) {
    if (!source.GetReflection()->HasField(source, field.field)) continue;
    if (field.json_name == "emptyDir") continue;
    const std::string here = Child(path, field.json_name);
    if (found) {
      report->Forbidden(here, "may not specify more than 1 volume type");
    } else {
      CheckSource(source, field.json_name, here, report);
    }
    found = true;
  }
  if (!found) report->Required(path, "must specify a volume type");
}

}  // namespace

void CheckFileMode(int32_t mode, const std::string& path, Report* report) {
  if (mode >= 0 && mode <= kMostMode) return;
  report->InvalidNumber(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
}

VolumeMap CheckVolumes(const corev1::Pod& pod, Report* report) {
  VolumeMap volumes;
  for (int i = 0; i < pod.spec().volumes_size(); ++i) {
    const corev1::Volume& volume = pod.spec().volumes(i);
    const std::string here = Index("spec.volumes", i);
    const size_t faults = report->size();
    CheckVolumeSource(volume.volumesource(), here, report);
    if (volume.name().empty()) {
      report->Required(Child(here, "name"));
    } else {
      report->InvalidEach(Child(here, "name"), volume.name(), CheckDns1123Label(volume.name()));
    }
    if (volumes.contains(volume.name())) report->Duplicate(Child(here, "name"), volume.name());
    if (report->size() == faults) volumes[volume.name()] = &volume.volumesource();
  }
  return volumes;
}

}  // namespace holdfast::agent::kube
