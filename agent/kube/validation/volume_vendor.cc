// SPDX-License-Identifier: Apache-2.0
// Sources of volumes for plugins that Kubernetes itself has taken out of its tree, or no longer
// recommends. A pod with one does not run here; that it is written rightly is judged all the same.
#include <algorithm>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "holdfast/base/ascii.h"
#include "k8s/core/v1/volume.pb.h"
#include "k8s/core/v1/volume_remote.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kTenantLength = 64;

void Require(const std::string& value, const std::string& path, Report* report) {
  if (value.empty()) report->Required(path);
}

void CheckPartition(int32_t partition, const std::string& path, Report* report) {
  if (partition < 0 || partition > 255) {
    report->InvalidNumber(path, partition, InclusiveRange(1, 255));
  }
}

// "HOST:PORT", the host in brackets when it has colons.
bool IsHostAndPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
    return host.find_first_of("[]") == std::string_view::npos;
  }
  return host.find_first_of(":[]") == std::string_view::npos &&
         text.substr(colon).find_first_of("[]") == std::string_view::npos;
}

void CheckQuobyte(const corev1::QuobyteVolumeSource& source, const std::string& path,
                  Report* report) {
  constexpr char kPairs[] = "must be a host:port pair or multiple pairs separated by commas";
  if (source.registry().empty()) {
    report->Required(Child(path, "registry"), kPairs);
  } else if (source.tenant().size() > kTenantLength) {
    report->Required(Child(path, "tenant"),
                     "must be a UUID and may not exceed a length of 64 characters");
  } else {
    std::string_view rest = source.registry();
    while (true) {
      const size_t comma = rest.find(',');
      if (!IsHostAndPort(rest.substr(0, comma))) {
        report->Invalid(Child(path, "registry"), source.registry(), kPairs);
      }
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  Require(source.volume(), Child(path, "volume"), report);
}

void CheckFlocker(const corev1::FlockerVolumeSource& source, const std::string& path,
                  Report* report) {
  const bool name = !source.datasetname().empty();
  const bool uuid = !source.datasetuuid().empty();
  if (!name && !uuid) report->Required(path, "one of datasetName and datasetUUID is required");
  if (name && uuid) {
    report->Invalid(path, "resource",
                    "datasetName and datasetUUID can not be specified simultaneously");
  }
  if (source.datasetname().find('/') != std::string::npos) {
    report->Invalid(Child(path, "datasetName"), source.datasetname(), "must not contain '/'");
  }
}

void CheckFlex(const corev1::FlexVolumeSource& source, const std::string& path, Report* report) {
  Require(source.driver(), Child(path, "driver"), report);
  for (const auto& [key, value] : Sorted(source.options())) {
    const std::string domain = "." + ToLower(key.substr(0, key.find('/')));
    if (domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io")) {
      report->Invalid(Key(Child(path, "options"), key), key,
                      "kubernetes.io and k8s.io namespaces are reserved");
    }
  }
}

void CheckAzureDisk(const corev1::AzureDiskVolumeSource& source, const std::string& path,
                    Report* report) {
  Require(source.diskname(), Child(path, "diskName"), report);
  Require(source.diskuri(), Child(path, "diskURI"), report);
  report->OneOfShown(Child(path, "cachingMode"), source.cachingmode(),
                     {"None", "ReadOnly", "ReadWrite"});
  report->OneOfShown(Child(path, "kind"), source.kind(), {"Dedicated", "Managed", "Shared"});
  const bool managed = source.kind() == "Managed";
  if (source.diskuri().starts_with(managed ? "/subscriptions/" : "https://")) return;
  report->NotSupported(
      Child(path, "diskURI"), source.diskuri(),
      {managed ? "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/"
                 "disks/{disk-id}"
               : "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"});
}

void CheckStorageOs(const corev1::StorageOSVolumeSource& source, const std::string& path,
                    Report* report) {
  const std::string name = Child(path, "volumeName");
  if (source.volumename().empty()) {
    report->Required(name);
  } else {
    report->InvalidEach(name, source.volumename(), CheckDns1123Label(source.volumename()));
  }
  if (!source.volumenamespace().empty()) {
    report->InvalidEach(Child(path, "volumeNamespace"), source.volumenamespace(),
                        CheckDns1123Label(source.volumenamespace()));
  }
  if (source.has_secretref())
    Require(source.secretref().name(), Child(path, "secretRef.name"), report);
}

void CheckScaleIo(const corev1::ScaleIOVolumeSource& source, const std::string& path,
                  Report* report) {
  Require(source.gateway(), Child(path, "gateway"), report);
  Require(source.system(), Child(path, "system"), report);
  Require(source.volumename(), Child(path, "volumeName"), report);
}

void CheckCeph(const corev1::VolumeSource& source, std::string_view name, const std::string& path,
               Report* report) {
  if (name == "rbd") {
    if (source.rbd().monitors().empty()) report->Required(Child(path, "monitors"));
    Require(source.rbd().image(), Child(path, "image"), report);
  }
  if (name == "cephfs" && source.cephfs().monitors().empty()) {
    report->Required(Child(path, "monitors"));
  }
}

// The disks of the clouds, each with little to say.
void CheckDisk(const corev1::VolumeSource& source, std::string_view name, const std::string& path,
               Report* report) {
  if (name == "gcePersistentDisk") {
    Require(source.gcepersistentdisk().pdname(), Child(path, "pdName"), report);
    CheckPartition(source.gcepersistentdisk().partition(), Child(path, "partition"), report);
  }
  if (name == "awsElasticBlockStore") {
    Require(source.awselasticblockstore().volumeid(), Child(path, "volumeID"), report);
    CheckPartition(source.awselasticblockstore().partition(), Child(path, "partition"), report);
  }
  if (name == "cinder") {
    Require(source.cinder().volumeid(), Child(path, "volumeID"), report);
    if (source.cinder().has_secretref()) {
      Require(source.cinder().secretref().name(), Child(path, "secretRef.name"), report);
    }
  }
  if (name == "azureFile") {
    Require(source.azurefile().secretname(), Child(path, "secretName"), report);
    Require(source.azurefile().sharename(), Child(path, "shareName"), report);
  }
  if (name == "vsphereVolume") {
    Require(source.vspherevolume().volumepath(), Child(path, "volumePath"), report);
  }
  if (name == "photonPersistentDisk") {
    Require(source.photonpersistentdisk().pdid(), Child(path, "pdID"), report);
  }
  if (name == "portworxVolume") {
    Require(source.portworxvolume().volumeid(), Child(path, "volumeID"), report);
  }
}

}  // namespace

void CheckVendorVolume(const corev1::VolumeSource& source, std::string_view name,
                       const std::string& path, Report* report) {
  CheckDisk(source, name, path, report);
  CheckCeph(source, name, path, report);
  if (name == "gitRepo") {
    Require(source.gitrepo().repository(), Child(path, "repository"), report);
    CheckRelativePath(source.gitrepo().directory(), Child(path, "directory"), report);
  }
  if (name == "glusterfs") {
    Require(source.glusterfs().endpoints(), Child(path, "endpoints"), report);
    Require(source.glusterfs().path(), Child(path, "path"), report);
  }
  if (name == "quobyte") CheckQuobyte(source.quobyte(), path, report);
  if (name == "flocker") CheckFlocker(source.flocker(), path, report);
  if (name == "flexVolume") CheckFlex(source.flexvolume(), path, report);
  if (name == "azureDisk") CheckAzureDisk(source.azuredisk(), path, report);
  if (name == "storageos") CheckStorageOs(source.storageos(), path, report);
  if (name == "scaleIO") CheckScaleIo(source.scaleio(), path, report);
}

}  // namespace holdfast::agent::kube
