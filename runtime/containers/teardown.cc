// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/teardown.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"
#include "runtime/cgroup/freezer.h"

namespace holdfast::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kEndLimit = std::chrono::seconds(5);
constexpr auto kSoon = milliseconds(200);  // a killed process has mostly ended
// Of its end there is a record a moment after the pidfd tells it.
constexpr microseconds kFirstExitPause(100);
constexpr microseconds kLongestExitPause(20'000);

// SIGKILL to the first process and wait until its end is recorded: only then may the records go.
Result<void> EndProcess(Parts& parts, const ContainerId& id, const ContainerBrief& brief) {
  ASSIGN_OR_RETURN(const std::optional<keeper::StartRecord> start,
                   parts.keeper.FindStart(id.value));
  if (!start) return {};
  auto process = parts.keeper.OpenProcess(*start);
  const int pidfd = process ? process->get() : -1;
  if (pidfd >= 0) ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  const auto deadline = steady_clock::now() + kEndLimit;
  for (microseconds pause(0);; pause = std::clamp(pause * 2, kFirstExitPause, kLongestExitPause)) {
    ASSIGN_OR_RETURN(const auto report, parts.keeper.FindExit(*start, pidfd));
    if (report) return {};
    if (steady_clock::now() >= deadline) {
      return Unavailable(StrCat("container ", id.value, " (pid ", start->pid,
                                ") does not end: it may wait for a device or a dead file server"));
    }
    pollfd wait{pidfd, POLLIN, 0};
    if (pidfd >= 0 && pause.count() == 0) {
      if (::poll(&wait, 1, static_cast<int>(kSoon.count())) > 0) continue;
      RETURN_IF_ERROR(ThawPod(parts, brief));
      ::poll(&wait, 1, static_cast<int>(milliseconds(kEndLimit).count()));
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
}

// What cannot be removed is out of the container's way from here on.
Result<void> RemoveScratch(const RuntimeOptions& options, const std::string& scratch) {
  if (scratch.empty()) return {};
  const size_t slash = scratch.rfind('/');
  if (slash == 0 || slash == std::string::npos) {
    return InvalidArgument(StrCat("scratch directory ", scratch, " is no directory of ours"));
  }
  ASSIGN_OR_RETURN(const std::string left,
                   sys::RemoveOrSetAside(AT_FDCWD, scratch, options.instance.AsideDir()));
  if (!left.empty() && options.warn) options.warn(left);
  // The last container of the pod takes the common directory along; others keep it.
  ::rmdir(scratch.substr(0, slash).c_str());
  return {};
}

}  // namespace

Result<void> ThawPod(Parts& parts, const ContainerBrief& brief) {
  auto pod = parts.cgroups->OpenPod(brief.pod_uid, brief.qos);
  if (!pod && pod.error().code() == Code::kNotFound) return {};
  if (!pod) return std::move(pod.error());
  return Thaw(*pod);
}

Result<void> TearDown(Parts& parts, const ContainerId& id, const ContainerBrief& brief) {
  const std::string context = StrCat("remove container ", id.value);
  RETURN_IF_ERROR(WithContext(EndProcess(parts, id, brief), context));
  HOLDFAST_PAUSE_POINT("containers.remove.ended");
  RETURN_IF_ERROR(
      WithContext(parts.cgroups->RemoveContainer(brief.pod_uid, brief.qos, id), context));
  HOLDFAST_PAUSE_POINT("containers.remove.cgroup");
  RETURN_IF_ERROR(WithContext(RemoveScratch(parts.options, brief.scratch), context));
  HOLDFAST_PAUSE_POINT("containers.remove.scratch");
  RETURN_IF_ERROR(WithContext(parts.keeper.UnregisterLog(id), context));
  HOLDFAST_PAUSE_POINT("containers.remove.log");
  if (brief.stdin_pipe) {
    RETURN_IF_ERROR(WithContext(parts.keeper.DropFds(StdinKey(id)), context));
  }
  RETURN_IF_ERROR(WithContext(parts.keeper.Forget(id.value), context));
  HOLDFAST_PAUSE_POINT("containers.remove.forgotten");
  RETURN_IF_ERROR(WithContext(parts.state.RemoveContainer(id), context));
  parts.table.Erase(id);
  return {};
}

Result<bool> FenceLaunch(Parts& parts, const ContainerId& id, const ContainerBrief& brief) {
  auto removed = parts.cgroups->RemoveEmptyContainer(brief.pod_uid, brief.qos, id);
  if (removed) return true;
  if (removed.error().sys_errno() == EBUSY) return false;
  return std::move(removed.error()).Wrap(StrCat("container ", id.value));
}

}  // namespace holdfast::runtime
