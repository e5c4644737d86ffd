// SPDX-License-Identifier: Apache-2.0
// What decide() reads and writes: facts observed from outside, memory kept per pod (persisted by
// agent/pod/state), and the decision: actions, events, status, next wake-up.
// Plain values without behaviour; nothing here touches the world.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/events/event.h"
#include "agent/pod/decide/allocation.h"
#include "agent/probe/probe.h"
#include "agent/source/pod_origin.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;
namespace metav1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;

// ---- operations ----------------------------------------------------------------------------

// What can be done about a pod. Carried out beside the pod's turns (agent/pod/operate).
struct Action {
  enum class Kind : uint8_t {
    kEnsureVolumes,
    kEnsureSandbox,
    kResize,          // attempt: the number of the allocation that the cgroups are to show
    kPull,            // container, attempt, image: its own, or that of a volume
    kStart,           // container, attempt
    kPostStart,       // container, id, attempt: the hook
    kPreStop,         // the same
    kSignal,          // id, signal
    kKill,            // id
    kRemove,          // id
    kRemoveSandbox,   // network and namespaces
    kReleaseVolumes,  // and the generated files; logs and record stay
    kCleanUp,         // volumes, logs, directory, record: the pod is gone afterwards
  };
  Kind kind;
  std::string container = {};
  ContainerId id = {};
  uint32_t attempt = 0;
  int signal = 0;
  std::string image = {};  // as the spec names it
  bool operator==(const Action&) const = default;
};

// "start app#0", "signal app 15": for tests and the debug log.
std::string ToString(const Action& action);

// An operation that was asked for and has not ended.
struct OperationFact {
  Action action;
  bool begun = false;    // false: it waits for room
  BootTime since;        // in this state
  bool overdue = false;  // that was told
  bool operator==(const OperationFact&) const = default;
};

// What a pull took, for the event.
struct PulledFact {
  std::chrono::nanoseconds pulling{0};
  std::chrono::nanoseconds total{0};  // with the time that it waited
  uint64_t size_bytes = 0;
};

// How an operation ended; one decision gets to see it.
struct OperationEnd {
  enum class How : uint8_t { kDone, kFailed, kCancelled };
  Action action;
  How how = How::kDone;
  WallTime wall;
  BootTime boot;
  std::optional<StartedContainer> started;    // kStart, kDone
  std::optional<StartFailure> start_failure;  // kStart, kFailed
  std::vector<std::string> pod_ips;           // kEnsureSandbox, kDone
  std::map<ContainerId, Amounts> resized;     // kResize, kDone: what each has by now
  Amounts resized_pod;                        // and the pod
  std::optional<PulledFact> pulled;           // kPull, kDone
  uint64_t inputs_version = 0;                // kEnsureVolumes: what they show at least, or lacked
  std::string error;                          // kFailed, not kStart; of a hook: what it is told
  std::vector<EventNote> events;              // what it has to tell besides
};

// ---- facts ---------------------------------------------------------------------------------

// A container of this pod as the runtime shows it; the two texts are filled in for an exited one.
struct ContainerFact {
  ObservedContainer observed;
  std::string termination_file;  // content of terminationMessagePath
  std::string log_tail;          // last lines, read only for FallbackToLogsOnError
  bool operator==(const ContainerFact&) const = default;
};

struct ImageFact {
  enum class State : uint8_t { kPresent, kAbsent, kInvalidName, kError };
  State state = State::kAbsent;
  std::string id;           // kPresent
  std::string name;         // kPresent: how status.image shows it
  std::string stop_signal;  // kPresent: the image's STOPSIGNAL, may be empty
  std::string error;        // otherwise
  std::string digest = {};  // kPresent: "repo@sha256:…" where one is known
  bool operator==(const ImageFact&) const = default;
};

// What the pod is made from that the API server has.
struct InputsFact {
  bool pending = false;          // asked for, not all answered
  uint64_t version = 0;          // grows with what its volumes show
  bool secrets_pending = false;  // as `pending`, of what images are pulled with
  bool sandbox_pending = false;  // as `pending`, of what says how the sandbox is made
  bool operator==(const InputsFact&) const = default;
};

struct NodeFacts {
  std::string name;
  std::vector<std::string> host_ips;  // primary family first
  int64_t memory_capacity_bytes = 0;
  std::chrono::seconds max_back_off{300};
};

// What the node says to a pod that asks for other amounts than it was given.
struct ResizeVerdict {
  enum class How : uint8_t { kGiven, kDeferred, kInfeasible };
  How how = How::kGiven;
  std::string message = {};  // why not
  // As a kubelet's metrics name it: why it is kInfeasible; what gave room to one that waited.
  std::string cause = {};
  bool operator==(const ResizeVerdict&) const = default;
};

// Of a pod whose place a critical one gets.
inline constexpr char kPreempting[] = "Preempting";

// The node wants a pod to end.
struct Eviction {
  std::string why;  // in a kubelet's words
  // What it counts as: "memory.available", or the resource that a critical pod lacks.
  std::string signal;
  std::chrono::seconds grace{1};
  bool disruption =
      false;  // for want of something that others need, not for what it did: a condition says so
  std::map<std::string, std::string> annotations = {};  // of the event
  std::string reason = "Evicted";                       // or kPreempting
  bool operator==(const Eviction&) const = default;
};

struct PodFacts {
  // Admitted: defaults filled in. With the amounts that it was given, those of a verdict kGiven too.
  const corev1::Pod* pod = nullptr;
  const corev1::Pod* asked = nullptr;   // with the amounts that it asks for; null: the same
  std::optional<ResizeVerdict> resize;  // of what it asks for; none: it was given that before
  std::optional<std::chrono::seconds> deletion_grace;  // set when the pod is to go
  bool object_gone = false;  // of a pod of the API server: nobody is to be told of its end any more
  std::optional<Eviction> eviction;  // the node wants it to end
  std::vector<ContainerFact> containers;
  bool sandbox_ready = false;   // namespaces and network stand
  bool sandbox_dying = false;   // what runs in it is being killed with the init of its processes
  bool sandbox_exists = false;  // anything of it is left
  std::string network_problem = {};  // why no pod can get addresses; "": it can
  std::vector<OperationFact> under_way;
  std::vector<OperationEnd> ended;          // since the decision before; older than `containers`
  std::map<std::string, ImageFact> images;  // by the reference as written in the spec
  InputsFact inputs;
  std::vector<ProbeFact> probes;  // those that have said something
  const NodeFacts* node = nullptr;
  WallTime wall;
  BootTime boot;
  std::chrono::seconds operation_deadline{123};  // one that takes longer is told
};

// ---- memory --------------------------------------------------------------------------------

// How one attempt of a container ended.
struct Finished {
  ContainerId id;
  uint32_t attempt = 0;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  std::string message;
  WallTime started_at;
  WallTime finished_at;
  std::string image;
  std::string image_id;
  bool unhealthy = false;  // a probe had it stopped; not persisted
  bool operator==(const Finished&) const = default;
};

// The attempt that was last handed to the runtime; written before the hand-over.
struct Launch {
  uint32_t attempt = 0;
  std::string image;
  std::string image_id;
  int stop_signal = SIGTERM;
  std::string image_digest = {};  // "repo@sha256:…" where one was known: what status.imageID shows
  std::string reference = {};     // the image as the spec named it; "" in older records
  std::optional<Amounts> amounts = {};  // cpu and memory that its cgroup has; not in older records
  // What is mounted of images, by volume: as `ShownImage`. Not in older records.
  std::map<std::string, std::string> volume_images = {};
  const std::string& ShownImage() const { return image_digest.empty() ? image_id : image_digest; }
  bool operator==(const Launch&) const = default;
};

// The identity a container's first process got.
struct UserIds {
  int64_t uid = 0;
  int64_t gid = 0;
  std::vector<int64_t> groups;
  bool operator==(const UserIds&) const = default;
};

struct Current {
  ContainerId id;
  uint32_t attempt = 0;
  WallTime started_at;
  std::optional<UserIds> user = {};  // not known of an adopted container
  // What its hook and its probes have come to; of no meaning where the spec has none.
  bool post_started = false;          // the postStart hook is over
  std::string post_start_error = {};  // it failed, and the container goes for it
  bool startup_passed = false;
  bool ready = false;
  std::optional<ProbeKind> unhealthy = {};  // that probe failed, and the container goes for it
  bool operator==(const Current&) const = default;
};

// A stop in progress: first the preStop hook, then the signal, then SIGKILL.
struct Stop {
  WallTime begun{};            // the grace period counts from here
  bool pre_stop_over = false;  // the hook has ended, or its time has
  WallTime signalled_at{};     // zero until the stop signal was sent
  BootTime begun_boot{};       // not persisted; zero: derived again from begun
  BootTime signalled_boot{};   // not persisted; zero: derived again from signalled_at
  BootTime next_kill{};        // not persisted; when SIGKILL is sent (again)
  BootTime since{};            // not persisted; zero: not looked at by this process
  bool operator==(const Stop&) const = default;
};

// Why the container is not there: a waiting state that outlives one decision.
struct Failure {
  std::string reason;
  std::string message;
  BootTime retry_at{};          // not persisted: a restarted agent retries at once
  uint64_t inputs_version = 0;  // of what could not be mounted; not persisted either
  bool operator==(const Failure&) const = default;
};

struct BackOff {
  std::chrono::seconds delay{0};   // 0: none yet
  WallTime updated_at;             // the restart that last moved it
  BootTime not_before{};           // not persisted; zero: derived again from the last exit
  uint32_t announced_attempt = 0;  // attempt + 1 for which the BackOff event was made
  bool operator==(const BackOff&) const = default;
};

struct ContainerMemory {
  uint32_t attempts = 0;  // started so far; the next one's number
  std::optional<Launch> launch;
  std::optional<Current> current;
  std::optional<Finished> last;
  std::optional<Finished> before_last;
  bool init_done = false;  // init container (or started sidecar) in this sandbox
  bool again = false;      // runs again whatever its policy says: all containers are restarted
  BackOff restart_back_off;
  BackOff image_back_off;
  std::optional<Failure> failure;
  std::optional<Stop> stop;  // of `current`
  // The attempt for which the Pulled event was made; not persisted, as events are not either.
  std::optional<uint32_t> announced_image;
  // The images that were pulled for an attempt; not persisted: a restarted agent asks again.
  std::set<std::pair<uint32_t, std::string>> pulled;
  bool operator==(const ContainerMemory&) const = default;
};

// Whether the node took the pod (agent/pod/admit): decided once per UID, kept with the record.
struct Admission {
  std::string reason;   // "OutOfcpu"; "" when it was taken
  std::string message;  // why not
  bool admitted() const { return reason.empty(); }
  bool operator==(const Admission&) const = default;
};

// Why the whole pod is being stopped, or was.
struct Ending {
  enum class Why : uint8_t { kDeleted, kCompleted, kDeadline, kRejected, kEvicted };
  Why why = Why::kDeleted;
  WallTime since;
  std::chrono::seconds grace{30};
  bool overdue = false;  // the event that tells so was made
  BootTime kill_at{};    // not persisted; zero: derived again from since and grace
  bool operator==(const Ending&) const = default;
};

struct ConditionMemory {
  std::string status;
  WallTime since;
  bool operator==(const ConditionMemory&) const = default;
};

// An operation that is not repeated before its time.
struct Pause {
  Action action;
  BootTime until;
  bool operator==(const Pause&) const = default;
};

// Reasons of a resize that is pending.
inline constexpr char kDeferred[] = "Deferred";
inline constexpr char kInfeasible[] = "Infeasible";

// A resize that waits for something, as a condition shows it.
struct ResizeNote {
  std::string reason;
  std::string message;
  int64_t generation = 0;  // that asked for it
  WallTime since;          // when it got this reason
  WallTime told;           // when it last got anything
  bool operator==(const ResizeNote&) const = default;
};

struct PodMemory {
  PodOrigin origin = PodOrigin::kFile;
  WallTime start_time;
  std::optional<Admission> admission;    // not judged yet: nothing was started
  std::optional<Allocation> allocation;  // what it was given of the node; none before that
  uint32_t allocations = 0;              // how often it was given something else
  std::optional<Amounts> pod_amounts;    // that its cgroup has; none: what it was given
  std::optional<ResizeNote> resize_pending;
  std::optional<ResizeNote> resize_in_progress;
  std::map<std::string, ContainerMemory> containers;
  bool sandbox_made = false;    // a sandbox stood before; its loss runs the init containers again
  bool initialized = false;     // init containers done in this sandbox
  bool restarting_all = false;  // a rule of a container that ended wants all of them restarted
  std::optional<Ending> ending;
  std::string terminal_phase;    // "Succeeded" or "Failed" once reached; never left again
  std::string terminal_reason;   // status.reason
  std::string terminal_message;  // status.message
  bool disrupted = false;        // by the node: Eviction::disruption
  std::vector<std::string> pod_ips;
  std::map<std::string, ConditionMemory> conditions;
  std::optional<Failure> failure;  // of volumes or sandbox
  BootTime active_deadline{};      // not persisted
  bool volumes_made = false;       // not persisted: a restarted agent makes what is missing
  uint64_t volumes_version = 0;    // of the inputs that they show; not persisted either
  std::string volumes_show;        // of the pod itself (shown_volumes.h); not persisted either
  std::string volumes_will_show;   // once what is under way is done; not persisted either
  bool released = false;           // not persisted: a restarted agent releases what is left
  std::vector<Pause> pauses;       // not persisted
  unsigned volume_failures = 0;    // in a row; not persisted
  bool operator==(const PodMemory&) const = default;
};

// ---- decision ------------------------------------------------------------------------------

struct Decision {
  PodMemory memory;             // to be persisted before the first action begins
  std::vector<Action> actions;  // all that is to be done, in order
  std::vector<Action> begin;    // of these, what may begin now
  std::vector<Action> cancel;   // under way and no longer wanted
  std::vector<Action> overdue;  // under way for too long, which was not told before
  std::vector<EventNote> events;
  corev1::PodStatus status;
  std::vector<WantedProbe> probes;  // all that are to run from now on
  bool released = false;            // it is told elsewhere, and nothing of it runs or is mounted
  std::optional<BootTime> wake_at;  // call again then, if nothing happens before
};

}  // namespace holdfast::agent
