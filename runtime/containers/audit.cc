// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/audit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"
#include "runtime/containers/held_devices.h"
#include "runtime/containers/teardown.h"
#include "runtime/state/paths.h"

namespace holdfast::runtime {
namespace {

constexpr auto kScratchAge = std::chrono::minutes(1);
constexpr auto kRemovalTime = std::chrono::seconds(20);  // of one tree, for one repair

}  // namespace

// One run: the steps share what was found.
class Auditor::Pass {
 public:
  Pass(Parts& parts, Sandboxes& sandboxes, const std::vector<PodUid>& live, bool repair)
      : parts_(parts), sandboxes_(sandboxes), live_(live.begin(), live.end()), repair_(repair) {}

  // Containers before their pods, records last, so that what is known about a thing lives longer
  // than the thing.
  Result<std::vector<Leftover>> Run() {
    RETURN_IF_ERROR(Containers());
    RETURN_IF_ERROR(Processes());
    RETURN_IF_ERROR(SandboxesAndNamespaces());
    RETURN_IF_ERROR(Cgroups());
    RETURN_IF_ERROR(Logs());
    RETURN_IF_ERROR(Devices());
    RETURN_IF_ERROR(Scratch());
    RETURN_IF_ERROR(CorruptRecords());
    return std::move(found_);
  }

 private:
  bool IsLive(const PodUid& uid) const {
    return live_.contains(uid) || sandboxes_.EnsuredRecently(uid) || IsSomebodyElses(uid);
  }

  bool IsSomebodyElses(const PodUid& uid) const {
    const auto spec = sandboxes_.Spec(uid);
    return spec && !spec->owner.empty();
  }

  // Reports, and with `repair` calls `remove` under the pod's lock. A repair that fails stays in
  // the report with its reason; the others go on.
  void Handle(const PodUid& uid, Leftover leftover, const std::function<Result<void>()>& remove) {
    const auto guard = parts_.pod_locks.TryLock(uid);
    if (!guard) return;  // a call is at work on this pod: the next audit looks again
    if (repair_) {
      HOLDFAST_PAUSE_POINT("containers.audit.repair");
      auto removed = remove();
      if (!removed) leftover.reason += StrCat("; removing it failed: ", removed.error().message());
    }
    found_.push_back(std::move(leftover));
  }

  Result<void> Containers() {
    for (const TableEntry& entry : parts_.table.List()) {
      if (IsLive(entry.brief.pod_uid)) continue;
      Handle(entry.brief.pod_uid,
             {"container", entry.id.value,
              StrCat("pod ", entry.brief.pod_uid.value, " is not wanted")},
             [&] { return TearDown(parts_, entry.id, entry.brief); });
    }
    return {};
  }

  // Start records that no container of ours stands behind.
  Result<void> Processes() {
    ASSIGN_OR_RETURN(const std::vector<keeper::StartRecord> starts, parts_.keeper.ListStarts());
    for (const keeper::StartRecord& start : starts) {
      const ContainerId id(start.id);
      if (start.kind != keeper::ProcessKind::kContainer || parts_.table.Find(id)) continue;
      const auto brief = DecodeBrief(start.tag);
      if (brief && parts_.state.Container(id)) continue;  // being started or being removed
      const ContainerBrief known = brief ? *brief : ContainerBrief{};
      Handle(known.pod_uid,
             {"process", StrCat(start.pid), StrCat("of no known container (", start.id, ")")},
             [&] { return TearDown(parts_, id, known); });
    }
    return {};
  }

  Result<void> SandboxesAndNamespaces() {
    std::set<PodUid> known;
    for (const PodUid& uid : sandboxes_.Known()) {
      known.insert(uid);
      if (IsLive(uid)) continue;
      Handle(uid, {"sandbox", uid.value, "the pod is not wanted"},
             [&] { return sandboxes_.Remove(uid); });
    }
    ASSIGN_OR_RETURN(const std::vector<PodUid> held, parts_.keeper.ListSandboxes());
    for (const PodUid& uid : held) {
      if (known.contains(uid) || IsLive(uid)) continue;
      Handle(uid, {"namespace", uid.value, "held for a pod without a record"},
             [&] { return parts_.keeper.DropSandbox(uid); });
    }
    return {};
  }

  Result<void> Cgroups() {
    ASSIGN_OR_RETURN(const std::vector<FoundPodCgroup> pods, parts_.cgroups->List());
    const std::vector<PodUid> known = sandboxes_.Known();
    const std::set<PodUid> with_record(known.begin(), known.end());
    for (const FoundPodCgroup& pod : pods) {
      if (!with_record.contains(pod.uid) && !IsLive(pod.uid)) {
        Handle(pod.uid, {"cgroup", StrCat("pod", pod.uid.value), "of a pod without a record"},
               [&] { return parts_.cgroups->RemovePod(pod.uid, pod.qos); });
        continue;
      }
      for (const ContainerId& id : pod.containers) {
        if (parts_.table.Find(id) || parts_.state.Container(id)) continue;
        Handle(pod.uid, {"cgroup", id.value, "of a container without a record"},
               [&] { return parts_.cgroups->RemoveContainer(pod.uid, pod.qos, id); });
      }
    }
    return {};
  }

  Result<void> Logs() {
    ASSIGN_OR_RETURN(const std::vector<ContainerId> logs, parts_.keeper.ListLogs());
    for (const ContainerId& id : logs) {
      if (parts_.table.Find(id) || parts_.state.Container(id)) continue;
      Handle(PodUid(id.value), {"log", id.value, "registered for a container without a record"},
             [&] { return parts_.keeper.UnregisterLog(id); });
    }
    return {};
  }

  Result<void> Devices() {
    ASSIGN_OR_RETURN(const std::vector<HeldVolume> held, ListHeldDevices(parts_.keeper));
    for (const HeldVolume& device : held) {
      if (IsLive(device.uid)) continue;
      Handle(device.uid,
             {"device", device.volume,
              StrCat("kept open for pod ", device.uid.value, ", which is not wanted")},
             [&] { return LetGoOfDevice(parts_.keeper, device.uid, device.volume); });
    }
    return {};
  }

  // <pods>/<uid>/containers/<name>/<attempt>/root, the writable layers; all else there is the
  // agent's.
  Result<void> Scratch() {
    ASSIGN_OR_RETURN(const std::set<std::string> known, KnownScratch());
    const std::string pods_dir = parts_.options.instance.PodsDir();
    ASSIGN_OR_RETURN(const DirFd pods, sys::OpenDir(pods_dir));
    for (const std::string& uid : ListOrNone(pods.get(), ".")) {
      const std::string containers = StrCat(uid, "/", kScratchParent);
      for (const std::string& name : ListOrNone(pods.get(), containers)) {
        const std::string attempts = StrCat(containers, "/", name);
        for (const std::string& attempt : ListOrNone(pods.get(), attempts)) {
          const std::string scratch = StrCat(attempts, "/", attempt, "/", kScratchName);
          const std::string path = StrCat(pods_dir, "/", scratch);
          if (known.contains(path) || !IsLeftOverScratch(pods.get(), PodUid(uid), scratch))
            continue;
          Handle(PodUid(uid), {"directory", path, "scratch of a container without a record"}, [&] {
            sys::RemoveLimits limits;
            limits.until = std::chrono::steady_clock::now() + kRemovalTime;
            return sys::RemoveTreeAt(pods.get(), scratch, limits);
          });
        }
      }
    }
    return {};
  }

  Result<std::set<std::string>> KnownScratch() {
    std::set<std::string> known;
    ASSIGN_OR_RETURN(const std::vector<ContainerRecord> records, parts_.state.Containers());
    for (const ContainerRecord& record : records) known.insert(record.spec.root_fs.scratch);
    for (const TableEntry& entry : parts_.table.List()) known.insert(entry.brief.scratch);
    return known;
  }

  // The agent makes a scratch directory a moment before its start is recorded.
  bool IsLeftOverScratch(int pods, const PodUid& uid, const std::string& scratch) const {
    struct stat st{};
    if (::fstatat(pods, scratch.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const auto changed = std::chrono::seconds(st.st_ctim.tv_sec);
    return !IsLive(uid) || parts_.clock.Wall().since_epoch - changed > kScratchAge;
  }

  static std::vector<std::string> ListOrNone(int dir, const std::string& path) {
    auto names = sys::ListDirAt(dir, path);
    return names ? std::move(*names) : std::vector<std::string>();  // a file, or gone meanwhile
  }

  Result<void> CorruptRecords() {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, parts_.state.Corrupt());
    for (const std::string& name : names) {
      Handle(PodUid(name), {"record", name, "it could not be read and was put aside"},
             [&] { return parts_.state.RemoveCorrupt(name); });
    }
    return {};
  }

  Parts& parts_;
  Sandboxes& sandboxes_;
  const std::set<PodUid> live_;
  const bool repair_;
  std::vector<Leftover> found_;
};

Result<std::vector<Leftover>> Auditor::Run(const std::vector<PodUid>& live, bool repair) {
  return Pass(parts_, sandboxes_, live, repair).Run();
}

}  // namespace holdfast::runtime
