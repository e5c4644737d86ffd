// SPDX-License-Identifier: Apache-2.0
// What a volume of a pod comes to that outlives the pod, or that somebody else makes: a PersistentVolume by its claim, or
// one of the same kinds that the pod names itself. Value types.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "k8s/core/v1/persistent_volume.pb.h"

namespace holdfast::agent {

// Null: none. Shared with where they come from: what is secret is not copied.
using CsiSecrets = std::shared_ptr<const std::map<std::string, std::string>>;

// What a storage plugin is told about one use of its volume.
struct CsiUse {
  bool ephemeral = false;       // the pod names it itself: it is made for the pod and ends with it
  std::string fs_group_policy;  // of its CSIDriver: "None", "File", "ReadWriteOnceWithFSType"
  bool takes_selinux_label = false;  // seLinuxMount of its CSIDriver: as the mount option `context`
  std::map<std::string, std::string> publish_context;  // of its VolumeAttachment
  std::map<std::string, std::string> pod_info;         // where its CSIDriver asks for that
  CsiSecrets stage_secrets, publish_secrets;
  std::string tokens;              // of the pod's account, as a plugin reads them; "" none
  bool tokens_are_secret = false;  // told among the secrets, not in the volume's context
  bool republished = false;        // published again whenever the pod's volumes are looked at
};

struct PersistentVolume {
  std::string
      name;  // of the PersistentVolume; of one that the pod names itself the volume's: what events call it
  ::k8s::io::api::core::v1::PersistentVolumeSpec spec;
  bool read_only = false;  // as the pod uses it
  CsiUse csi = {};         // of the kind csi
  // The claim, while its file system is to grow on this node (kube/claim_resize.h); else null.
  std::shared_ptr<const ::k8s::io::api::core::v1::PersistentVolumeClaim> growing = {};
};

// Containers get the device itself, with no file system of ours on it.
inline bool IsBlock(const PersistentVolume& volume) { return volume.spec.volumemode() == "Block"; }

// By the volume's name in the pod.
using PersistentVolumes = std::map<std::string, PersistentVolume>;

}  // namespace holdfast::agent
