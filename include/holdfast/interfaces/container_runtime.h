// SPDX-License-Identifier: Apache-2.0
// ContainerRuntime: what runtime/ offers the agent. Implemented in runtime/containers.
// Thread-safe; every call may block (kernel work, the keeper's answer) and has a time limit inside.
// All verbs are idempotent: ensuring what is there, stopping or removing what is gone, succeed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/device_holder.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/exit_report.h"

namespace holdfast {

// Which phase failed decides the reason a user sees: CreateContainerConfigError,
// CreateContainerError, or StartError with RunContainerError.
struct StartFailure {
  enum class Phase : uint8_t { kConfig, kCreate, kStart };
  Phase phase;
  Error error;
};

struct EffectiveUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> supplemental_groups;
};

struct StartedContainer {
  ContainerId id;
  pid_t pid = 0;  // in the agent's pid namespace, for display
  WallTime started_at;
  std::optional<EffectiveUser> user = {};  // not known of one that a former agent asked for
};

// One container as the kernel and the records show it; the agent adopts these after a restart.
struct ObservedContainer {
  enum class State : uint8_t { kRunning, kExited };
  ContainerId id;
  PodUid pod_uid;
  std::string name;
  uint32_t attempt = 0;
  State state = State::kRunning;
  pid_t pid = 0;
  WallTime started_at;
  std::optional<model::ExitReport> exit;  // set when kExited
  bool operator==(const ObservedContainer&) const = default;
};

struct ObservedSandbox {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  bool has_network = false;  // false with hostNetwork
  bool ready = true;         // false when a namespace was lost and must be made again
  std::string owner = {};    // as in SandboxSpec
  // The init of its shared processes ends, or has: the kernel kills all of them with it, and nobody is born there any more.
  bool dying = false;
};

// All that is there of one pod.
struct ObservedPod {
  std::optional<ObservedSandbox> sandbox;
  std::vector<ObservedContainer> containers;  // by id
};

// Other amounts for a container that runs.
struct ResizedContainer {
  ContainerId id;
  std::string name;  // within the pod, for messages
  model::ResourceSpec resources;
};

struct ExecSpec {
  std::vector<std::string> argv;
  bool stdin_open = false;
  bool tty = false;
  uint16_t rows = 24;
  uint16_t columns = 80;
};

// A process started inside a container. Destruction kills it if it still runs.
class ExecSession {
 public:
  virtual ~ExecSession() = default;
  virtual int stdin_fd() const = 0;   // -1 without stdin; the pty master with tty
  virtual int stdout_fd() const = 0;  // the pty master with tty
  virtual int stderr_fd() const = 0;  // -1 with tty
  virtual void CloseStdin() = 0;
  virtual Result<void> Resize(uint16_t rows, uint16_t columns) = 0;
  virtual Result<void> Signal(int signal) = 0;
  virtual int ended_fd() const = 0;  // readable when it ended
  virtual Result<model::ExitReport> Wait() = 0;
};

// Which of a container's own streams somebody wants.
struct AttachSpec {
  bool input = false;
  bool output = false;
  bool error_output = false;
};

// A container's own streams, beside its log: what it writes from now on, and where it reads.
struct AttachedStreams {
  UniqueFd output;        // a pipe; invalid when not asked for
  UniqueFd error_output;  // likewise, and with a terminal
  UniqueFd input;         // its stdin's write end or its terminal's master; invalid: it has none
  bool terminal = false;
  bool input_once = false;  // stdinOnce: CloseStdin() once the first who attached has gone
};

// Something that is ours on this machine and belongs to nothing desired.
struct Leftover {
  std::string kind;    // "cgroup", "mount", "interface", "directory", "process", "record", …
  std::string object;  // its name or path
  std::string reason;
};

class ContainerRuntime : public DeviceHolder {
 public:
  // Makes the pod's namespaces and cgroup if they are not there.
  virtual Result<void> EnsureSandbox(const model::SandboxSpec& spec) = 0;
  // Gives the cgroups of a pod that stands, and of containers of it, the cpu and memory that are named here; a limit
  // that is not named stays. In an order in which no container's limit is above the pod's at any time. Refused before
  // anything is written when a memory limit would come to lie below what is in use. A container that has ended is left
  // out.
  virtual Result<void> Resize(const PodUid& uid, const model::ResourceSpec& pod,
                              const std::vector<ResizedContainer>& containers) = 0;
  // The pod's network namespace; kNotFound with hostNetwork or without a sandbox.
  virtual Result<NsFd> NetworkNamespace(const PodUid& uid) = 0;
  // Kills what is left in it, drops the namespaces, removes the cgroup and the records.
  virtual Result<void> RemoveSandbox(const PodUid& uid) = 0;

  // Creates and starts; returns once exec(2) succeeded in the container. Of each pod, name and attempt there is one, whatever
  // id is asked for: who asks again, after a former agent's call that was cut short as well, is given that one.
  virtual std::expected<StartedContainer, StartFailure> Start(const model::ContainerSpec& spec) = 0;
  virtual Result<void> Signal(const ContainerId& id, int signal) = 0;
  // SIGKILL to the whole pid namespace (or, where the pid namespace is shared, the whole cgroup).
  virtual Result<void> Kill(const ContainerId& id) = 0;
  // Forgets an exited container: cgroup, scratch directory, records. Logs stay.
  virtual Result<void> Remove(const ContainerId& id) = 0;
  virtual Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id,
                                                    const ExecSpec& spec) = 0;
  // Of a running container. Its log goes on; whoever does not read what was asked for makes the
  // container wait.
  virtual Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) = 0;
  // The container reads the end of its stdin; nothing with a terminal or without stdin.
  virtual Result<void> CloseStdin(const ContainerId& id) = 0;

  virtual Result<std::vector<ObservedContainer>> ListContainers() = 0;
  // Asks the keeper what it holds; Observe() answers from this and from what was done since. To be called now and then: it
  // also asks the logger again for containers that it did not answer for when they were started.
  virtual Result<std::vector<ObservedSandbox>> ListSandboxes() = 0;
  // One pod, at a cost that does not depend on the others. Ended containers are found here as in
  // the list; lost namespaces at the latest after the next ListSandboxes().
  virtual ObservedPod Observe(const PodUid& uid) = 0;

  // `hint` is called (from a thread of the runtime, must not block) when a container of the pod may
  // have changed state; the truth is Observe(). A lost or doubled hint changes nothing.
  virtual void SetChangeHint(std::function<void(const PodUid&)> hint) = 0;

  // So many sandboxes of the commonest shape lie ready from now on, for EnsureSandbox() to take; made while nothing
  // starts. 0, as at the beginning, takes them away. Does not block.
  virtual void KeepReady(size_t sandboxes) = 0;

  // What of ours belongs to no sandbox or container that `live` names. `repair` removes it.
  virtual Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) = 0;
};

}  // namespace holdfast
