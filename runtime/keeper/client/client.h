// SPDX-License-Identifier: Apache-2.0
// KeeperClient: the agent's side of holder, launcher and logger.
//
// Thread-safe. A restarted or upgraded keeper is simply found again (peers.h); copies share the connections. Every call has
// a time limit inside. While a keeper process is being restarted, calls wait for its successor up to
// that limit and then fail with kUnavailable.
// Records are plain files in the run directory (paths.h); reading them needs no keeper at all.
// Descriptors given as `int` are borrowed, those returned are the caller's and O_CLOEXEC.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/exit_report.h"
#include "runtime/keeper/client/client_call.h"
#include "runtime/keeper/common/types.h"

namespace holdfast::runtime::keeper {

// What the launcher is asked to start. `id` names the process in every record: the container id, or
// for an exec any id that is free (NewContainerId() is fine).
struct LaunchRequest {
  std::string id;
  ProcessKind kind = ProcessKind::kContainer;
  uint32_t attempt = 0;
  int plan = -1;         // sealed memfd with the wire form of the LaunchPlan
  std::vector<int> fds;  // the plan's fd slots, in order
  // Inodes of the log pipes (LogPipes), 0 without; by them a new holder finds a lost pipe again.
  uint64_t stdout_inode = 0;
  uint64_t stderr_inode = 0;
  std::string tag;  // the caller's own bytes (<= 4096), kept in the start record for adoption
  // What `fds` name serves one launch only, as detached mounts do. Else a launch whose launcher
  // died with it is simply sent to the next one.
  bool once = false;
};

struct Launched {
  pid_t pid = 0;             // in the keeper's (the host's) pid namespace
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat; pid and start_ticks are an identity
  WallTime started_at;
  PidFd pidfd;          // invalid when a repeated call finds that the process has ended already
  UniqueFd pty_master;  // with stdio.tty; GetTty gives it again
  std::vector<std::string> warnings;  // what the recipe degraded
};

// One descriptor that the holder keeps.
struct KeptFd {
  std::string key;
  UniqueFd fd;
};

// Container-side ends of its log pipes: O_RDWR and owned by the container's user. Put them into the
// plan's stdout and stderr slots, and close them once Launch returned (end-of-file depends on it).
struct LogPipes {
  UniqueFd stdout_fd;
  UniqueFd stderr_fd;
  uint64_t stdout_inode = 0;
  uint64_t stderr_inode = 0;
  // Else the container's user could not open /dev/stdout.
  Result<void> GiveTo(uid_t owner, gid_t group) const;
};

struct LogPipe {
  UniqueFd read_end;
  UniqueFd container_end;
  uint64_t inode = 0;
};

// A registration under way: BeginLog has sent the pipes to the holder. Of one thread.
class PendingLog {
 public:
  // Waits for the holder, then asks the logger.
  Result<void> Register();
  // The container's ends, once. They have no owner yet. What is written before the logger has answered
  // waits in them.
  LogPipes TakePipes();
  // Waits for the logger. Nothing is under way any more, whatever it gives; without Register(), either.
  Result<void> Await();

 private:
  friend class KeeperClient;
  PendingLog(const std::shared_ptr<Peers>& peers, std::string registration, LogPipe out,
             LogPipe err, std::vector<Request> puts);
  std::shared_ptr<Peers> peers_;
  std::string registration_;
  LogPipe out_;
  LogPipe err_;
  KeeperCall holder_;
  std::optional<KeeperCall> logger_;
};

// A sandbox under way. Of one thread; to be awaited even by who does not want it any more, or it
// appears behind the back of who drops it.
class PendingSandbox {
 public:
  std::expected<std::vector<KeptFd>, LaunchFailure> Await();

 private:
  friend class KeeperClient;
  explicit PendingSandbox(KeeperCall call) : call_(std::move(call)) {}
  KeeperCall call_;
};

class KeeperClient {
 public:
  explicit KeeperClient(std::string run_dir)
      : peers_(std::make_shared<Peers>(std::move(run_dir))) {}

  // True while holder, launcher and logger answer, each within `limit`.
  Result<void> Ping(std::chrono::milliseconds limit = std::chrono::seconds(10)) const;

  // --- processes ---------------------------------------------------------------------------------

  // Starts a process; returns once execve(2) succeeded in it. Exactly once: when the launcher dies
  // on the way, the start record decides whether it runs already or is tried again by its
  // successor. An id that has a start record already (a repeated call) gives that process.
  std::expected<Launched, LaunchFailure> Launch(const LaunchRequest& request) const;

  // Start records of everything launched and not yet forgotten, for adoption; sorted by id.
  Result<std::vector<StartRecord>> ListStarts() const;
  Result<std::optional<StartRecord>> FindStart(const std::string& id) const;
  // False for a launch that goes on, or that was cut short before the program began: then no end is
  // told, and the start record goes.
  Result<bool> HasBegun(const StartRecord& start) const;
  // A pidfd for a record's process; kNotFound when that very process is gone (reaped).
  Result<PidFd> OpenProcess(const StartRecord& start) const;

  // --- exits -------------------------------------------------------------------------------------

  Result<std::vector<ExitRecord>> ListExits() const;
  // Takes exit records away that a former agent, killed in between, left of what it had forgotten.
  Result<void> RemoveForgottenExits() const;
  // What is known about the end of a started process: nullopt while it runs or is not yet recorded.
  // When nobody could wait for it (launcher and holder died), `pidfd` (-1 for none), opened before
  // the end, still tells it on Linux 6.15+, or one of the holder's; only once the holder has said that
  // it does not know is the report's source kLost. The result is recorded, so that every later call
  // gives the same.
  Result<std::optional<model::ExitReport>> FindExit(const StartRecord& start, int pidfd = -1) const;
  // Adds what only the cgroup knows. kNotFound without an exit record.
  Result<void> SetOomKilled(const std::string& id) const;
  // Removes start and exit record and the keeper's pidfd. Only after the process has ended.
  Result<void> Forget(const std::string& id) const;

  // An inotify descriptor that turns readable when exit records may have appeared; ReadExitHints
  // empties it (it is non-blocking) and gives their ids. The truth is FindExit: list once after
  // subscribing. Survives restarts of the keeper.
  Result<UniqueFd> WatchExits() const;
  static std::vector<std::string> ReadExitHints(int watch);

  // --- sandboxes: namespaces of a pod ------------------------------------------------------------

  // Makes what `plan` (sealed memfd with a SandboxPlan) describes and keeps it in the holder, with
  // the launcher as second owner. Keys: "net", "ipc", "uts", "user", "pid", "shm", "proc", and
  // "init" (pidfd of the pod's init with shareProcessNamespace). A pod that has a sandbox already
  // gets that one. `fds`: the plan's fd slots, in order.
  std::expected<std::vector<KeptFd>, LaunchFailure> MakeSandbox(
      const PodUid& uid, int plan, const std::vector<int>& fds = {}) const;
  // The same, not waited for; `plan` and `fds` are borrowed until the answer. `member`, unless "":
  // what MakeMember made becomes the pod's sandbox, in one step, if it is there still and the pod
  // has none.
  PendingSandbox BeginSandbox(const PodUid& uid, int plan, const std::vector<int>& fds = {},
                              const std::string& member = "") const;
  // kNotFound when the holder has none.
  Result<std::vector<KeptFd>> GetSandbox(const PodUid& uid) const;
  // Of a pod whose sandbox the keeper lost: it keeps these, all of them, by the names above, as if it had made them.
  Result<void> PutSandbox(const PodUid& uid,
                          const std::vector<std::pair<std::string, int>>& fds) const;
  // Absent is success. The namespaces end with their last process.
  Result<void> DropSandbox(const PodUid& uid) const;
  Result<std::vector<PodUid>> ListSandboxes() const;

  // A sandbox of no pod yet, without an init, kept as a pod's is. `member` is an id of the
  // caller's. Fails with a launcher that is too old for it.
  std::expected<std::vector<KeptFd>, LaunchFailure> MakeMember(const std::string& member,
                                                               int plan) const;
  Result<void> DropMember(const std::string& member) const;  // absent is success
  Result<std::vector<std::string>> ListMembers() const;      // incomplete ones, too

  // --- other descriptors (pty masters, stdin pipes) ----------------------------------------------

  // Keys are ids; the keeper's own kinds (common/keys.h) are refused.
  // Putting a key again replaces it. At most 64 descriptors per key.
  Result<void> PutFds(const std::string& key, const std::vector<int>& fds) const;
  Result<std::vector<UniqueFd>> GetFds(const std::string& key) const;  // kNotFound
  Result<void> DropFds(const std::string& key) const;                  // absent is success
  Result<std::vector<std::string>> ListKeys() const;                   // all, the own ones included

  // --- logs --------------------------------------------------------------------------------------

  // Makes a container's pipes, gives their read ends to holder and logger and returns the
  // container's ends. Before Launch. A second call for an id that was never launched replaces the
  // pipes; the log file goes on where it is.
  Result<LogPipes> RegisterLog(const ContainerId& id, const model::LogSpec& spec, uid_t owner,
                               gid_t group) const;
  // The same step by step, so that the caller works while holder and logger do.
  Result<PendingLog> BeginLog(const ContainerId& id, const model::LogSpec& spec) const;
  // Of a container with pipes that runs: registers its log where whoever launched it ended before the
  // logger had heard of it. kNotFound when the holder has no pipes of it.
  Result<void> EnsureLog(const ContainerId& id, const model::LogSpec& spec) const;
  // As RegisterLog for a container with a terminal (StdioPlan::tty): there are no pipes; the launcher
  // hands the pty's master to holder ("log.<id>.tty") and logger, which reads it like a pipe.
  // Before Launch.
  Result<void> RegisterTtyLog(const ContainerId& id, const model::LogSpec& spec) const;
  // The pty's master again (non-blocking), for resize and stdin. Output read from it is missing in
  // the log.
  Result<UniqueFd> GetTty(const ContainerId& id) const;

  // Copies of what the container writes from now on go into these pipes too (write ends,
  // non-blocking; -1: not wanted), whose readers see the end with that of the container's output,
  // and when the logger is replaced. Who does not read makes the container wait.
  Result<void> AttachLog(const ContainerId& id, int stdout_pipe, int stderr_pipe) const;

  Result<LogStatus> GetLogStatus(const ContainerId& id) const;  // kNotFound when not registered
  // Polls until drained; kDeadlineExceeded when a process still holds the pipe open.
  Result<void> WaitLogDrained(const ContainerId& id, std::chrono::milliseconds limit) const;
  Result<void> RotateLog(const ContainerId& id) const;
  // Commits what is in the pipes now, then forgets pipes, spools and records. Log files stay.
  // Absent is success.
  Result<void> UnregisterLog(const ContainerId& id) const;
  Result<std::vector<ContainerId>> ListLogs() const;

  // --- keeper ------------------------------------------------------------------------------------

  // Replaces the code of holder, launcher and logger in place (same pids) by `binary`, a readable
  // fd of a holdfast-keeper. Returns once all three answer again.
  Result<void> Upgrade(int binary) const;

 private:
  std::shared_ptr<Peers> peers_;
};

}  // namespace holdfast::runtime::keeper
