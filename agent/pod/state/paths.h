// SPDX-License-Identifier: Apache-2.0
// What the agent keeps on disk, and where.
//
//   <root_dir>/agent.lock                        flock of the running agent
//   <root_dir>/pods.journal                      by UID (pod_state_store.h): the pod as admitted, and
//                                                what must be remembered of it (record.h)
//   <root_dir>/pods/<uid>/
//     inputs.json                                what it was made from (agent/objects/kept_inputs.h)
//     volumes.json                               its PersistentVolumes (agent/volume/placed_volumes.h)
//     containers/<name>/<attempt>/root/          writable layer; gone with the container
//     containers/<name>/<attempt>/volumes/<n>/   what the image declares as volumes; as well
//     volumes/kubernetes.io~empty-dir/<volume>/  emptyDir (a tmpfs with medium Memory)
//     volumes/kubernetes.io~image/<volume>/  the files of an image, mounted
//     volumes/kubernetes.io~csi/<volume>/mount/  what a storage plugin mounts
//     volumes/kubernetes.io~nfs/<volume>/        a directory of an NFS server, mounted
//   <root_dir>/plugins/kubernetes.io/csi/        of all pods (agent/csi/node_csi_mounter.h), and
//     volumeDevices/publish/<volume>/<uid>       the node of a block device that a plugin puts there
//   <run_dir>/pods/<uid>/                        a tmpfs (agent/volume/pod_files.h)
//     etc-hosts  resolv.conf  hostname           mounted into the containers
//     termination-log.<name>.<attempt>           mounted at terminationMessagePath
//   <run_dir>/volumes/<uid>/<volume>/            configMap, secret, downwardAPI, projected
//                                                (agent/volume/written_volumes.h)
//   <pod_log_dir>/<ns>_<pod>_<uid>/<container>/<attempt>.log   (<pod> cut to what a name may have)
//   <pod_log_dir>/.aside/                         log directories that could not be removed
//   <container_log_dir>/<pod>_<ns>_<container>-<id>.log -> the log file
//
// Everything else of a pod goes with its directories; a file that is not listed here is not ours.
// Strings only; functions are pure.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/ids.h"
#include "holdfast/base/strings.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

class PodPaths {
 public:
  static constexpr char kPlacedVolumesFile[] = "volumes.json";

  PodPaths(const model::Instance& instance, const PodUid& uid, const std::string& pod_namespace,
           const std::string& pod_name)
      : root_(instance.root_dir),
        dir_(StrCat(instance.PodsDir(), "/", uid.value)),
        files_(StrCat(instance.PodFilesDir(), "/", uid.value)),
        device_publishing_(
            StrCat(instance.root_dir, "/plugins/kubernetes.io/csi/volumeDevices/publish/")),
        uid_(uid.value),
        written_volumes_(StrCat(instance.WrittenVolumesDir(), "/", uid.value)),
        log_root_(instance.pod_log_dir),
        log_name_(LogName(pod_namespace, pod_name, uid.value)),
        link_stem_(StrCat(instance.container_log_dir, "/", pod_name, "_", pod_namespace, "_")) {}

  // What of the pod outlives a reboot lies below it.
  const std::string& Root() const { return root_; }
  const std::string& Dir() const { return dir_; }
  std::string LogDir() const { return StrCat(log_root_, "/", log_name_); }
  // The same in two parts: what lies below the root may be tampered with (sys/shared_tree.h).
  const std::string& LogRoot() const { return log_root_; }
  std::string ContainerLogs(const std::string& name) const { return StrCat(log_name_, "/", name); }
  const std::string& Files() const { return files_; }
  std::string Hosts() const { return files_ + "/etc-hosts"; }
  std::string ResolvConf() const { return files_ + "/resolv.conf"; }
  std::string Hostname() const { return files_ + "/hostname"; }
  std::string Container(const std::string& name) const {
    return StrCat(dir_, "/containers/", name);
  }
  std::string Attempt(const std::string& name, uint32_t attempt) const {
    return StrCat(Container(name), "/", attempt);
  }
  std::string TerminationLog(const std::string& name, uint32_t attempt) const {
    return StrCat(files_, "/termination-log.", name, ".", attempt);
  }
  std::string Scratch(const std::string& name, uint32_t attempt) const {
    return Attempt(name, attempt) + "/root";
  }
  std::string ImageVolume(const std::string& name, uint32_t attempt, size_t index) const {
    return StrCat(Attempt(name, attempt), "/volumes/", index);
  }
  std::string PlacedVolumes() const { return StrCat(dir_, "/", kPlacedVolumesFile); }
  std::string Volumes() const { return dir_ + "/volumes"; }
  std::string EmptyDirs() const { return Volumes() + "/kubernetes.io~empty-dir"; }
  std::string EmptyDir(const std::string& volume) const { return StrCat(EmptyDirs(), "/", volume); }
  std::string MountedImage(const std::string& volume) const {
    return StrCat(Volumes(), "/kubernetes.io~image/", volume);
  }
  std::string CsiVolume(const std::string& volume) const {
    return StrCat(Volumes(), "/kubernetes.io~csi/", volume, "/mount");
  }
  // By the volume's name in the pod: that of a PersistentVolume could be another volume's there.
  std::string NfsVolume(const std::string& volume) const {
    return StrCat(Volumes(), "/kubernetes.io~nfs/", volume);
  }
  std::string LocalVolume(const std::string& volume) const {
    return StrCat(Volumes(), "/kubernetes.io~local-volume/", volume);
  }
  std::string CsiDevice(const std::string& volume) const {
    return StrCat(device_publishing_, volume, "/", uid_);
  }
  const std::string& WrittenVolumes() const { return written_volumes_; }
  std::string WrittenVolume(const std::string& volume) const {
    return StrCat(written_volumes_, "/", volume);
  }
  std::string LogFile(const std::string& name, uint32_t attempt) const {
    return StrCat(LogDir(), "/", name, "/", LogFileName(attempt));
  }
  // "<ns>_<pod>_<uid>". The UID tells pods apart, so of a name that is too long for a file's a part
  // is enough.
  static std::string LogName(const std::string& pod_namespace, const std::string& pod_name,
                             const std::string& uid) {
    const size_t others = pod_namespace.size() + uid.size() + 2;
    const size_t room = others < kFileName ? kFileName - others : 0;
    return StrCat(pod_namespace, "_", pod_name.substr(0, room), "_", uid);
  }
  static std::string LogFileName(uint32_t attempt) { return StrCat(attempt, ".log"); }
  // At most 255 characters with ".log", as a file name may be.
  std::string LogLink(const std::string& name, const ContainerId& id) const {
    std::string path = StrCat(link_stem_, name, "-", id.value);
    const size_t leaf = path.rfind('/') + 1;
    if (path.size() - leaf > kLinkStem) path.resize(leaf + kLinkStem);
    return path + ".log";
  }
  // What the names of all links of the pod begin with.
  std::string LogLinkPrefix() const {
    return link_stem_.substr(link_stem_.rfind('/') + 1, kLinkStem);
  }

 private:
  static constexpr size_t kFileName = 255;  // NAME_MAX
  static constexpr size_t kLinkStem = kFileName - 4;

  std::string root_;
  std::string dir_;
  std::string files_;
  std::string device_publishing_;
  std::string uid_;
  std::string written_volumes_;
  std::string log_root_;
  std::string log_name_;
  std::string link_stem_;
};

}  // namespace holdfast::agent
