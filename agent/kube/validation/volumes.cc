// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>

#include <set>
#include <vector>

#include "agent/kube/schema.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/volume_remote.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int32_t kMostMode = 0777;
constexpr size_t kMostPortal = 64;
constexpr size_t kMostShown = 300;

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

// What the source of that name must be like.
void CheckSource(const corev1::VolumeSource& source, std::string_view name, const std::string& path,
                 Report* report) {
  if (name == "emptyDir") return CheckEmptyDir(source.emptydir(), path, report);
  if (name == "hostPath") return CheckHostPath(source.hostpath(), path, report);
  if (name == "secret") return CheckSecret(source.secret(), path, report);
  if (name == "configMap") return CheckConfigMap(source.configmap(), path, report);
  if (name == "downwardAPI") return CheckDownward(source.downwardapi(), path, report);
  if (name == "projected") return CheckProjected(source.projected(), path, report);
  if (name == "image") return CheckImage(source.image(), path, report);
  CheckRemoteVolume(source, name, path, report);
  CheckVendorVolume(source, name, path, report);
}

// In the order in which Kubernetes looks: the first one counts.
constexpr std::string_view kSources[] = {"emptyDir",
                                         "hostPath",
                                         "gitRepo",
                                         "gcePersistentDisk",
                                         "awsElasticBlockStore",
                                         "secret",
                                         "nfs",
                                         "iscsi",
                                         "glusterfs",
                                         "flocker",
                                         "persistentVolumeClaim",
                                         "rbd",
                                         "cinder",
                                         "cephfs",
                                         "quobyte",
                                         "downwardAPI",
                                         "fc",
                                         "flexVolume",
                                         "configMap",
                                         "azureFile",
                                         "vsphereVolume",
                                         "photonPersistentDisk",
                                         "portworxVolume",
                                         "azureDisk",
                                         "storageos",
                                         "projected",
                                         "scaleIO",
                                         "csi",
                                         "ephemeral",
                                         "image"};

// The names of the sources that are there, in that order.
std::vector<std::string_view> SourcesOf(const corev1::VolumeSource& source) {
  const MessageSchema& schema = SchemaOf(source.GetDescriptor());
  std::vector<std::string_view> found;
  for (const std::string_view name : kSources) {
    const auto field = schema.by_name.find(name);
    const bool there = field != schema.by_name.end() &&
                       source.GetReflection()->HasField(source, field->second.back());
    if (there) found.push_back(name);
  }
  return found;
}

// Exactly one source; each further one is refused by name.
void CheckVolumeSource(const corev1::VolumeSource& source, const std::string& path,
                       Report* report) {
  const std::vector<std::string_view> sources = SourcesOf(source);
  if (sources.empty()) return report->Required(path, "must specify a volume type");
  CheckSource(source, sources[0], Child(path, sources[0]), report);
  for (size_t i = 1; i < sources.size(); ++i) {
    report->Forbidden(Child(path, sources[i]), "may not specify more than 1 volume type");
  }
}

void CheckNames(const corev1::Pod& pod, const corev1::Volume& volume, const std::string& path,
                Report* report) {
  const std::string& name = volume.name();
  const corev1::VolumeSource& source = volume.volumesource();
  const std::vector<std::string_view> sources = SourcesOf(source);
  const bool ephemeral = !sources.empty() && sources[0] == "ephemeral";
  if (ephemeral && !pod.metadata().name().empty() && !name.empty()) {
    const std::string claim = StrCat(pod.metadata().name(), "-", name);
    for (const std::string& fault : CheckDns1123Subdomain(claim)) {
      report->Invalid(path, name, StrCat("PVC name ", Quoted(claim, kMostShown), ": ", fault));
    }
  }
  if (source.iscsi().has_initiatorname() &&
      name.size() + 1 + source.iscsi().targetportal().size() > kMostPortal) {
    report->Invalid(
        path, name,
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
        "if iscsi.initiatorName is specified.");
  }
  if (name.empty()) {
    report->Required(path);
  } else {
    report->InvalidEach(path, name, CheckDns1123Label(name));
  }
}

// The claims that will be made for the ephemeral volumes are theirs alone.
std::set<std::string> MadeClaims(const corev1::Pod& pod) {
  std::set<std::string> names;
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (volume.volumesource().has_ephemeral() && !pod.metadata().name().empty()) {
      names.insert(StrCat(pod.metadata().name(), "-", volume.name()));
    }
  }
  return names;
}

}  // namespace

void CheckFileMode(int32_t mode, const std::string& path, Report* report) {
  if (mode >= 0 && mode <= kMostMode) return;
  report->InvalidNumber(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
}

VolumeMap CheckVolumes(const corev1::Pod& pod, Report* report) {
  VolumeMap volumes;
  const std::set<std::string> made = MadeClaims(pod);
  for (int i = 0; i < pod.spec().volumes_size(); ++i) {
    const corev1::Volume& volume = pod.spec().volumes(i);
    const std::string here = Index("spec.volumes", i);
    const size_t faults = report->size();
    CheckVolumeSource(volume.volumesource(), here, report);
    CheckNames(pod, volume, Child(here, "name"), report);
    if (volumes.contains(volume.name())) report->Duplicate(Child(here, "name"), volume.name());
    if (report->size() == faults) volumes[volume.name()] = &volume.volumesource();
    const corev1::PersistentVolumeClaimVolumeSource& claim =
        volume.volumesource().persistentvolumeclaim();
    if (volume.volumesource().has_persistentvolumeclaim() && made.contains(claim.claimname())) {
      report->Invalid(Child(here, "persistentVolumeClaim.claimName"), claim.claimname(),
                      "must not reference a PVC that gets created for an ephemeral volume");
    }
  }
  return volumes;
}

}  // namespace holdfast::agent::kube
