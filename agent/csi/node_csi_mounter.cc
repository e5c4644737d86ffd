// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/node_csi_mounter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent/kube/csi_names.h"
#include "agent/volume/mount_point.h"
#include "agent/volume/ownership.h"
#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

constexpr mode_t kCsiDirMode = 0750;
constexpr char kTokens[] = "csi.storage.k8s.io/serviceAccount.tokens";

Error NotRegistered(const std::string& driver) {
  return Unavailable(StrCat("kubernetes.io/csi: driver name ", driver,
                            " not found in the list of registered CSI drivers"));
}

std::vector<std::string> NamesIn(const std::string& directory) {
  auto names = sys::ListDirAt(AT_FDCWD, directory);
  return names ? std::move(*names) : std::vector<std::string>();
}

constexpr char kVolumeData[] = "vol_data.json";

// Two PersistentVolumes can be one volume of a plugin, and a pod can have both. No name has a '~'.
std::string UserMark(const std::string& uid, const PlacedVolume& place) {
  return StrCat(uid, "~", place.name);
}

// What a plugin stages of a block device lies where the PersistentVolume says, everything else where its handle does.
// A mark of an agent that wrote down the pod only counts for all.
bool SharesStaging(const std::string& mark, const PlacedVolume& place) {
  return !place.block || !mark.contains('~') || mark.ends_with("~" + place.name);
}

// Where something lies that plugins may change at any moment.
struct Entry {
  DirFd parent;
  std::string name;
  std::string path;  // for errors
};

// `path` below `root`, both absolute. kNotFound: its directory is not there.
Result<Entry> FindBelow(const std::string& root, const std::string& path) {
  const size_t slash = path.rfind('/');
  ASSIGN_OR_RETURN(DirFd parent,
                   sys::OpenDirBelow(root, path.substr(root.size() + 1, slash - root.size() - 1)));
  return Entry{std::move(parent), path.substr(slash + 1), path};
}

Result<DirFd> MakeCsiDirs(const std::string& root, const std::string& path) {
  return sys::MakeDirsBelow(root, path.substr(root.size() + 1), kCsiDirMode);
}

Result<void> WriteHandle(int dir, const std::string& driver, const std::string& handle) {
  if (sys::ExistsAt(dir, kVolumeData)) return {};
  const nlohmann::json json = {{"driverName", driver}, {"volumeHandle", handle}};
  return sys::WriteFileAtomicAt(dir, kVolumeData, json.dump(), 0600);
}

// `dir` is below `root`.
std::optional<std::string> ReadHandle(const std::string& root, const std::string& dir) {
  constexpr size_t kLimit = 64 * 1024;
  const auto volume = sys::OpenDirBelow(root, dir.substr(root.size() + 1));
  if (!volume) return std::nullopt;
  const auto file = sys::OpenPlainFileAt(volume->get(), kVolumeData, O_RDONLY);
  if (!file) return std::nullopt;
  const auto text = sys::ReadFd(file->get(), kLimit);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const auto handle = json.is_object() ? json.find("volumeHandle") : json.end();
  if (handle == json.end() || !handle->is_string()) return std::nullopt;
  return handle->get<std::string>();
}

Result<void> CheckUnmounted(const Entry& entry) {
  ASSIGN_OR_RETURN(const bool mounted, IsMountPointAt(entry.parent.get(), entry.name));
  if (!mounted) return {};
  return Conflict(StrCat(entry.path, " is still mounted, although the plugin says it is not"));
}

bool IsReadWriteOnce(const corev1::PersistentVolumeSpec& spec) {
  const auto& modes = spec.accessmodes();
  return std::ranges::any_of(modes, [](const std::string& mode) {
    return mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
  });
}

// Whether the agent gives the files to the pod's group, by the plugin's policy.
bool GivesToGroup(const PersistentVolume& volume) {
  const std::string& policy = volume.csi.fs_group_policy;
  if (policy == "None" || volume.read_only || IsBlock(volume)) return false;
  if (policy == "File") return true;
  const bool has_type = !volume.spec.persistentvolumesource().csi().fstype().empty();
  return has_type && (volume.csi.ephemeral || IsReadWriteOnce(volume.spec));
}

CsiSecrets PublishSecrets(const CsiUse& use) {
  if (use.tokens.empty() || !use.tokens_are_secret) return use.publish_secrets;
  auto secrets = std::make_shared<std::map<std::string, std::string>>();
  if (use.publish_secrets) *secrets = *use.publish_secrets;
  (*secrets)[kTokens] = use.tokens;
  return secrets;
}

CsiVolume VolumeFor(const PersistentVolume& volume) {
  const auto& source = volume.spec.persistentvolumesource().csi();
  CsiVolume out;
  out.id = source.volumehandle();
  out.block = IsBlock(volume);
  out.fs_type = source.fstype();
  out.access_mode =
      volume.spec.accessmodes().empty() ? "ReadWriteOnce" : volume.spec.accessmodes(0);
  out.mount_flags.assign(volume.spec.mountoptions().begin(), volume.spec.mountoptions().end());
  out.publish_context = volume.csi.publish_context;
  out.volume_context.insert(source.volumeattributes().begin(), source.volumeattributes().end());
  return out;
}

}  // namespace

struct NodeCsiMounter::Work {
  const corev1::Pod& pod;
  const PersistentVolume& volume;
  const PlacedVolume& place;
  const CsiDriver& driver;
  const std::atomic<bool>& cancelled;
  CsiVolume asked;
  std::string staging;  // "" where nothing is staged
};

NodeCsiMounter::NodeCsiMounter(const std::string& root_dir, const CsiDrivers& drivers,
                               TellOwnership tell_ownership)
    : root_dir_(root_dir),
      volumes_dir_(root_dir + "/plugins/kubernetes.io/csi"),
      drivers_(drivers),
      tell_ownership_(std::move(tell_ownership)) {
  ReadVolumesInUse();
}

// What a former agent left in use.
void NodeCsiMounter::ReadVolumesInUse() {
  for (const std::string& driver : NamesIn(volumes_dir_)) {
    for (const std::string& hash : NamesIn(StrCat(volumes_dir_, "/", driver))) {
      const std::string dir = StrCat(volumes_dir_, "/", driver, "/", hash);
      const auto handle = ReadHandle(root_dir_, dir);
      if (handle) in_use_[dir] = kube::UniqueVolumeName(driver, *handle);
    }
  }
}

std::vector<std::string> NodeCsiMounter::VolumesInUse() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [dir, name] : in_use_) names.push_back(name);
  return names;
}

Result<void> NodeCsiMounter::MarkUse(const Work& work) {
  const std::string dir = VolumeDir(work.place.driver, work.place.handle);
  ASSIGN_OR_RETURN(const DirFd volume, MakeCsiDirs(root_dir_, dir));
  ASSIGN_OR_RETURN(const DirFd users, MakeCsiDirs(root_dir_, dir + "/users"));
  RETURN_IF_ERROR(WriteHandle(volume.get(), work.place.driver, work.place.handle));
  const std::string mark = UserMark(work.pod.metadata().uid(), work.place);
  RETURN_IF_ERROR(sys::OpenAt(users.get(), mark, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600));
  HOLDFAST_PAUSE_POINT("agent.csi.user_marked");
  const std::lock_guard lock(mutex_);
  in_use_[dir] = kube::UniqueVolumeName(work.place.driver, work.place.handle);
  return {};
}

std::string NodeCsiMounter::VolumeDir(const std::string& driver, const std::string& handle) const {
  return StrCat(volumes_dir_, "/", driver, "/", kube::HandleDirectory(handle));
}

std::string NodeCsiMounter::StagingPath(const PlacedVolume& place) const {
  return place.block ? StrCat(volumes_dir_, "/volumeDevices/staging/", place.name)
                     : VolumeDir(place.driver, place.handle) + "/globalmount";
}

// "" of a plugin that does not stage.
std::string NodeCsiMounter::StagingOf(const CsiDriver& driver, const PlacedVolume& place) const {
  return driver.info.stages ? StagingPath(place) : "";
}

// 1. who uses it is known; 2. staged for the node; 3. published for the pod; 4. given to its group.
Result<void> NodeCsiMounter::Mount(const corev1::Pod& pod, const PersistentVolume& volume,
                                   const PlacedVolume& place, const std::atomic<bool>& cancelled) {
  const auto driver = drivers_.Find(place.driver);
  const VolumeSteps& steps = StepsOf(place.block);
  if (driver == nullptr) return StepFailed(steps.publish, volume.name, NotRegistered(place.driver));
  Work work{pod, volume, place, *driver, cancelled, VolumeFor(volume), ""};
  if (pod.spec().securitycontext().has_fsgroup() && driver->info.gives_to_group) {
    work.asked.group = StrCat(pod.spec().securitycontext().fsgroup());
  }
  if (!volume.csi.ephemeral) work.staging = StagingOf(*driver, place);
  if (!volume.csi.ephemeral && !place.ready) {
    if (auto staged = Stage(work); !staged) {
      return StepFailed(steps.stage, volume.name, std::move(staged.error()));
    }
  }
  if (auto published = Publish(work); !published) {
    return StepFailed(steps.publish, volume.name, std::move(published.error()));
  }
  return {};
}

// Pods of a node share it, so one at a time; what follows is each pod's own.
Result<void> NodeCsiMounter::Stage(const Work& work) {
  const std::string dir = VolumeDir(work.place.driver, work.place.handle);
  const VolumeLocks::Lock lock(locks_, dir, &work.cancelled);
  if (!lock.held()) return Conflict("not wanted any more");
  RETURN_IF_ERROR(MarkUse(work));
  if (work.staging.empty()) return {};
  RETURN_IF_ERROR(MakeCsiDirs(root_dir_, work.staging));
  RETURN_IF_ERROR(work.driver.client->Stage(work.asked, work.volume.csi.stage_secrets, work.staging,
                                            work.driver.info.knows_single_nodes, &work.cancelled));
  HOLDFAST_PAUSE_POINT("agent.csi.staged");
  return {};
}

// The last part of the target is the plugin's to make.
Result<void> NodeCsiMounter::Publish(const Work& work) const {
  const std::string& target = work.place.path;
  RETURN_IF_ERROR(MakeCsiDirs(root_dir_, target.substr(0, target.rfind('/'))));
  const CsiUse& use = work.volume.csi;
  CsiVolume asked = work.asked;
  // Whatever the volume's own attributes say: a plugin believes this.
  for (const auto& [key, value] : use.pod_info) asked.volume_context[key] = value;
  if (!use.tokens.empty() && !use.tokens_are_secret) asked.volume_context[kTokens] = use.tokens;
  RETURN_IF_ERROR(work.driver.client->Publish(
      asked, PublishSecrets(use), work.staging, target, work.volume.read_only,
      work.driver.info.knows_single_nodes, &work.cancelled));
  HOLDFAST_PAUSE_POINT("agent.csi.published");
  if (work.place.block) return {};
  ASSIGN_OR_RETURN(const DirFd dir,
                   sys::OpenDirBelow(root_dir_, target.substr(root_dir_.size() + 1)));
  if (!asked.group.empty() || !GivesToGroup(work.volume) ||
      !work.pod.spec().securitycontext().has_fsgroup()) {
    return {};
  }
  OwnershipProgress progress(work.pod, target, tell_ownership_);
  return GiveToGroupOf(work.pod, dir.get(), &progress);
}

Result<void> NodeCsiMounter::Expand(const PersistentVolume& volume, const PlacedVolume& place,
                                    const CsiSecrets& secrets, int64_t bytes,
                                    const std::atomic<bool>& cancelled) {
  const auto driver = drivers_.Find(place.driver);
  if (driver == nullptr) return NotRegistered(place.driver);
  if (!driver->info.expands) {
    return Unsupported(StrCat("NodeExpand is not supported by the CSI driver ", place.driver));
  }
  const VolumeLocks::Lock lock(locks_, VolumeDir(place.driver, place.handle), &cancelled);
  if (!lock.held()) return Unavailable("not wanted any more");
  return WithContext(
      driver->client->Expand(VolumeFor(volume), secrets, place.path, StagingOf(*driver, place),
                             bytes, driver->info.knows_single_nodes, &cancelled),
      "Expander.NodeExpand failed to expand the volume ");
}

Result<void> NodeCsiMounter::Unmount(const PodUid& uid, const PlacedVolume& place) {
  const auto driver = drivers_.Find(place.driver);
  const VolumeSteps& steps = StepsOf(place.block);
  if (driver == nullptr) {
    return StepFailed(steps.unpublish, place.name, NotRegistered(place.driver));
  }
  if (auto done = Unpublish(*driver, place); !done) {
    return StepFailed(steps.unpublish, place.name, std::move(done.error()));
  }
  if (auto done = Unstage(*driver, place, uid); !done) {
    return StepFailed(steps.unstage, place.name, std::move(done.error()));
  }
  return {};
}

// What is left of a place where a plugin mounted something. Never of something that is still mounted.
Result<void> NodeCsiMounter::RemovePlace(const std::string& path) const {
  const auto entry = FindBelow(root_dir_, path);
  if (!entry && entry.error().code() == Code::kNotFound) return {};
  if (!entry) return entry.error();
  RETURN_IF_ERROR(CheckUnmounted(*entry));
  const int dir = entry->parent.get();
  if (::unlinkat(dir, entry->name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  // A plugin for files may leave one.
  if (errno == ENOTDIR && ::unlinkat(dir, entry->name.c_str(), 0) == 0) return {};
  return Error::FromErrno(errno, StrCat("rmdir ", path));
}

// Other pods may have the volume, too.
Result<void> NodeCsiMounter::RemoveIfEmpty(const std::string& directory) const {
  const auto entry = FindBelow(root_dir_, directory);
  if (!entry && entry.error().code() == Code::kNotFound) return {};
  if (!entry) return entry.error();
  if (::unlinkat(entry->parent.get(), entry->name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT ||
      errno == ENOTEMPTY) {
    return {};
  }
  return Error::FromErrno(errno, StrCat("rmdir ", directory));
}

// Beside a device plugins may leave files there, as a kubelet lets them.
Result<void> NodeCsiMounter::RemoveStaging(const PlacedVolume& place,
                                           const std::string& staging) const {
  if (!place.block) return RemovePlace(staging);
  ASSIGN_OR_RETURN(const Entry entry, FindBelow(root_dir_, staging));
  RETURN_IF_ERROR(CheckUnmounted(entry));
  return sys::RemoveTreeAt(entry.parent.get(), entry.name);
}

Result<void> NodeCsiMounter::Unpublish(const CsiDriver& driver, const PlacedVolume& place) const {
  RETURN_IF_ERROR(driver.client->Unpublish(place.handle, place.path));
  HOLDFAST_PAUSE_POINT("agent.csi.unpublished");
  RETURN_IF_ERROR(RemovePlace(place.path));
  const std::string parent = place.path.substr(0, place.path.rfind('/'));
  return place.block ? RemoveIfEmpty(parent) : RemovePlace(parent);
}

// Where nobody else uses it. One that waited for others and was given up never was a user.
Result<void> NodeCsiMounter::Unstage(const CsiDriver& driver, const PlacedVolume& place,
                                     const PodUid& uid) {
  const std::string dir = VolumeDir(driver.info.name, place.handle);
  const auto volume = sys::OpenDirBelow(root_dir_, dir.substr(root_dir_.size() + 1));
  if (!volume && volume.error().code() == Code::kNotFound) return {};
  if (!volume) return volume.error();
  const std::string user = StrCat("users/", UserMark(uid.value, place));
  const std::string former = StrCat("users/", uid.value);
  if (!sys::ExistsAt(volume->get(), user) && !sys::ExistsAt(volume->get(), former) &&
      !NamesIn(dir + "/users").empty()) {
    return {};
  }
  const VolumeLocks::Lock lock(locks_, dir);
  RETURN_IF_ERROR(sys::RemoveFileAt(volume->get(), user));
  RETURN_IF_ERROR(sys::RemoveFileAt(volume->get(), former));
  HOLDFAST_PAUSE_POINT("agent.csi.user_unmarked");
  const auto users = sys::ListDirAt(volume->get(), "users");
  if (!users && users.error().code() == Code::kNotFound) return {};
  if (!users) return users.error();
  if (std::ranges::any_of(*users, [&](const auto& mark) { return SharesStaging(mark, place); })) {
    return {};
  }
  const std::string staging = StagingPath(place);
  if (sys::ExistsAt(AT_FDCWD, staging)) {
    RETURN_IF_ERROR(driver.client->Unstage(place.handle, staging));
    HOLDFAST_PAUSE_POINT("agent.csi.unstaged");
    RETURN_IF_ERROR(RemoveStaging(place, staging));
  }
  if (!users->empty()) return {};
  ASSIGN_OR_RETURN(const Entry entry, FindBelow(root_dir_, dir));
  RETURN_IF_ERROR(sys::RemoveTreeAt(entry.parent.get(), entry.name));
  const std::lock_guard in_use(mutex_);
  in_use_.erase(dir);
  return {};
}

}  // namespace holdfast::agent
