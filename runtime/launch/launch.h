// SPDX-License-Identifier: Apache-2.0
// The parent's side of a launch, for the single-threaded launcher process (and tests). Static, no
// libraries beyond libc. Not thread-safe: one thread of a single-threaded process.
//
// Order:  Launch()      clones; the child copies its descriptor table and reports; v1 cgroups and
//                       id maps are done. The child now waits.
//         caller        writes its start record (pid, start_ticks)
//         Go()          the child runs the recipe and execs
//         Poll()        on every event of report_fd() or pidfd(), until it gives an outcome
//
// A process that enters a pid namespace of others (an exec, shareProcessNamespace) is born at the
// end of the recipe only (step_birth.cc). Until born() the pid is that of the child that prepares
// it: Go() is remembered, and the caller writes its record when OnBirth() is called.
//
// The process ends by itself when the PendingLaunch is destroyed, or the launcher dies, before Go().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/launch_plan.h"
#include "holdfast/sys/probe.h"

namespace holdfast::runtime {

// Long-lived descriptors of the launcher (pidfds above all) belong at or above this number, so that
// the ones received with a plan get low numbers: a launch copies the descriptor table only up to
// the highest one it needs, whatever lies above.
inline constexpr int kLowFdBound = 512;
// Moves a descriptor there. Never to be called between clone and "unshared" (Launch() does both).
Result<UniqueFd> MoveAboveLowFds(UniqueFd fd);

// What every launch of this process uses; made once. From then on the process ignores no signal: its
// children's programs would, too.
struct LaunchContext {
  DirFd proc;            // a private, detached procfs of the launcher's pid namespace
  UniqueFd null;         // /dev/null
  sys::HostFacts facts;  // tests force fall-backs here
};
Result<LaunchContext> MakeLaunchContext();

// Makes the calling process' mount namespace a new one that shows nothing but `visible` (absolute
// directories, each at its own path, with what is mounted below), /proc and /dev/null: copying a
// namespace costs 1.2 us per mount. Call before threads exist and before MakeLaunchContext().
// `visible` must hold the image store and the pods' scratch directories.
Result<void> EnterLauncherMountNamespace(std::span<const std::string> visible);

// Namespaces made by a SandboxPlan; the invalid ones were not asked for.
struct SandboxFds {
  NsFd network;
  NsFd ipc;
  NsFd uts;
  NsFd user;
  NsFd pid;
  UniqueFd shm;   // source of a MountPlan of kind kShared
  UniqueFd proc;  // with pid: source of one of kind kProc
};

struct LaunchOutcome {
  enum class State : uint8_t {
    kRunning,     // exec succeeded (SandboxPlan: the descriptors are here)
    kExecFailed,  // everything was prepared; the command could not be executed
    kFailed,      // an earlier step failed, or the child was killed, or time ran out
  };
  State state = State::kFailed;
  std::string step;                   // "overlay root", "exec", …; "" when running
  std::optional<Error> error;         // set unless running; errno of the child in sys_errno()
  std::vector<std::string> warnings;  // what was degraded, e.g. "setrlimit RLIMIT_NOFILE: …"
  UniqueFd pty_master;                // with stdio.tty, also O_CLOEXEC
  SandboxFds sandbox;                 // SandboxPlan only
};

class PendingLaunch {
 public:
  PendingLaunch(PendingLaunch&&) noexcept;
  PendingLaunch& operator=(PendingLaunch&&) noexcept;
  // Before an outcome was given: kills the child. Reaping is the owner's business in every case.
  ~PendingLaunch();

  bool born() const;             // whether the next ones are those of the program's process
  pid_t pid() const;             // in the launcher's pid namespace
  uint64_t start_ticks() const;  // field 22 of /proc/PID/stat: (pid, start_ticks) names a process
  int pidfd() const;             // readable when the process has ended; above kLowFdBound
  int report_fd() const;         // readable when Poll() has something to do
  BootTime deadline() const;     // Poll() gives kFailed and kills the child once it has passed
  PidFd DuplicatePidFd() const;  // invalid when out of descriptors

  // Called within Poll() or Wait() when the process is born that was not at first, before it may
  // become its program; the descriptor is the one that pidfd() was until then, still open. A
  // failure ends the launch.
  void OnBirth(std::function<Result<void>(int former_pidfd)> born);
  // With stdio.tty: called within Poll() or Wait(), before the child may become its program, with
  // the pty's master (borrowed). Whoever shall keep the terminal alive without this process gets it
  // there.
  void OnTerminal(std::function<void(int master)> keep);
  // Sends "go", now or at birth. A failure means that the child is gone; Poll() then tells why.
  Result<void> Go();
  // Never blocks. nullopt: not yet. An outcome is given exactly once.
  std::optional<LaunchOutcome> Poll();
  // Waits (poll(2)) for the outcome, at most until deadline().
  LaunchOutcome Wait();

 private:
  friend class LaunchBuilder;
  struct State;
  explicit PendingLaunch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Clones the child of `plan`. `context` outlives what is returned. `fds` is the list that the
// plan's indexes refer to: borrowed, the caller may close them as soon as this returns (not before;
// nothing else of the process may open or close descriptors meanwhile, which a single thread
// guarantees). Blocks for the child's first report only, at most 2 s of `time_limit`. On failure
// nothing is left: the child is killed and reaped here. On success the child is the caller's to
// reap, whatever becomes of it: waitid(2) on pidfd().
// `begun` (may be null) is mapped shared: the child stores 1 there as the last thing before
// execve(2), and 0 again if that fails. So whoever has the memory still knows of a child that is
// gone whether it became its program.
Result<PendingLaunch> Launch(const LaunchContext& context, const model::Plan& plan,
                             std::span<const UniqueFd> fds, std::chrono::nanoseconds time_limit,
                             char* begun = nullptr);

}  // namespace holdfast::runtime
