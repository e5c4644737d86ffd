// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/memory.h"

#include <algorithm>
#include <utility>

#include "agent/kube/utf8.h"
#include "agent/pod/decide/back_off.h"
#include "agent/pod/decide/spec_containers.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kLogTailBytes = 2048;
constexpr size_t kLogTailLines = 80;
constexpr std::chrono::seconds kSyncBackOff{10};
// How long RunContainerError is shown before the crash back-off takes over.
constexpr std::chrono::seconds kShowStartError{1};
constexpr int32_t kStartErrorCode = 128;
constexpr int32_t kUnknownCode = 137;

void Finish(ContainerMemory& memory, Finished finished) {
  if (memory.launch && memory.launch->attempt == finished.attempt) {
    finished.image = memory.launch->image;
    finished.image_id = memory.launch->image_id;
  }
  memory.before_last = std::exchange(memory.last, std::move(finished));
  memory.current.reset();
  memory.stop.reset();
  memory.failure.reset();
  memory.restart_back_off.not_before = {};
}

// Counts `attempt` as started, and the restart it was.
void BeginAttempt(ContainerMemory& memory, uint32_t attempt, std::chrono::seconds cap,
                  WallTime wall) {
  if (attempt < memory.attempts) return;
  if (memory.last) NextRestartBackOff(memory.restart_back_off, *memory.last, cap, wall);
  memory.attempts = attempt + 1;
  memory.again = false;
}

void AdoptRunning(ContainerMemory& memory, const ObservedContainer& seen,
                  std::chrono::seconds cap) {
  if (memory.current && memory.current->id == seen.id) return;
  BeginAttempt(memory, seen.attempt, cap, seen.started_at);
  memory.current = Current{.id = seen.id, .attempt = seen.attempt, .started_at = seen.started_at};
  memory.failure.reset();
  memory.stop.reset();
}

std::string ExitReason(const model::ExitReport& exit) {
  if (exit.source == model::ExitReport::Source::kLost) return "ContainerStatusUnknown";
  if (exit.oom_killed) return "OOMKilled";
  return exit.exit_code == 0 ? "Completed" : "Error";
}

void AbsorbExit(const SpecContainer& container, ContainerMemory& memory, const ContainerFact& fact,
                std::chrono::seconds cap) {
  const ObservedContainer& seen = fact.observed;
  if (memory.last && memory.last->attempt >= seen.attempt) return;
  const model::ExitReport& exit = *seen.exit;
  BeginAttempt(memory, seen.attempt, cap, seen.started_at);
  Finished finished;
  finished.id = seen.id;
  finished.attempt = seen.attempt;
  finished.exit_code =
      exit.source == model::ExitReport::Source::kLost ? kUnknownCode : exit.exit_code;
  finished.signal = exit.signal;
  finished.reason = ExitReason(exit);
  finished.message = TerminationMessage(*container.spec, fact);
  finished.started_at = seen.started_at;
  finished.finished_at = exit.finished_at;
  finished.unhealthy =
      memory.current && memory.current->id == seen.id && memory.current->unhealthy.has_value();
  if (container.role == Role::kInit && finished.exit_code == 0) memory.init_done = true;
  Finish(memory, std::move(finished));
}

void RecordLost(ContainerMemory& memory, WallTime wall) {
  Finished finished;
  finished.id = memory.current->id;
  finished.attempt = memory.current->attempt;
  finished.exit_code = kUnknownCode;
  finished.reason = "ContainerStatusUnknown";
  finished.message =
      "the container is not there any more and nobody knows how it ended; it was running before";
  finished.started_at = memory.current->started_at;
  finished.finished_at = wall;
  Finish(memory, std::move(finished));
}

// The last `lines` lines of `text`, at most `bytes` of them.
std::string Tail(const std::string& text, size_t bytes, size_t lines) {
  size_t begin = text.size() > bytes ? text.size() - bytes : 0;
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (size_t seen = 0; at > begin; --at) {
    if (text[at - 1] == '\n' && ++seen == lines) {
      begin = at;
      break;
    }
  }
  return text.substr(begin);
}

}  // namespace

// A container writes what it likes; a status is UTF-8, or nobody can read the whole pod.
std::string TerminationMessage(const corev1::Container& spec, const ContainerFact& fact) {
  const bool failed = fact.observed.exit && fact.observed.exit->exit_code != 0;
  if (fact.termination_file.empty() && failed &&
      spec.terminationmessagepolicy() == "FallbackToLogsOnError") {
    return kube::ReplaceInvalidUtf8(Tail(fact.log_tail, kLogTailBytes, kLogTailLines));
  }
  return kube::ReplaceInvalidUtf8(fact.termination_file.substr(0, kTerminationFileBytes));
}

void Absorb(const PodFacts& facts, PodMemory& memory) {
  for (const SpecContainer& container : ContainersOf(*facts.pod)) {
    ContainerMemory& mine = memory.containers[container.name()];
    // Exits first, oldest first: the order in which they became history.
    std::vector<const ContainerFact*> seen;
    for (const ContainerFact& fact : facts.containers) {
      if (fact.observed.name == container.name()) seen.push_back(&fact);
    }
    std::sort(seen.begin(), seen.end(), [](const ContainerFact* a, const ContainerFact* b) {
      return a->observed.attempt < b->observed.attempt;
    });
    bool current_seen = false;
    for (const ContainerFact* fact : seen) {
      if (mine.current && fact->observed.id == mine.current->id) current_seen = true;
    }
    if (mine.current && !current_seen) RecordLost(mine, facts.wall);
    const std::chrono::seconds cap = facts.node->max_back_off;
    for (const ContainerFact* fact : seen) {
      if (fact->observed.exit) {
        const bool is_new = !mine.last || mine.last->attempt < fact->observed.attempt;
        const std::string hook_error = mine.current ? mine.current->post_start_error : "";
        AbsorbExit(container, mine, *fact, cap);
        if (is_new && !hook_error.empty()) {
          mine.failure = Failure{"PostStartHookError", hook_error, facts.boot + kShowStartError};
        }
        if (is_new && RestartsAllAfter(container, mine.last->exit_code)) {
          memory.restarting_all = true;
        }
      } else {
        AdoptRunning(mine, fact->observed, cap);
      }
    }
  }
}

std::optional<UserIds> UserIdsOf(const std::optional<EffectiveUser>& user) {
  if (!user) return std::nullopt;
  return UserIds{
      user->uid, user->gid, {user->supplemental_groups.begin(), user->supplemental_groups.end()}};
}

void RecordStarted(PodMemory& memory, const std::string& container, uint32_t attempt,
                   const StartedContainer& started, std::chrono::seconds back_off_cap,
                   WallTime wall) {
  ContainerMemory& mine = memory.containers[container];
  BeginAttempt(mine, attempt, back_off_cap, wall);
  mine.current = Current{.id = started.id,
                         .attempt = attempt,
                         .started_at = started.started_at,
                         .user = UserIdsOf(started.user)};
  mine.failure.reset();
  mine.stop.reset();
}

const char* ReasonOf(StartFailure::Phase phase) {
  switch (phase) {
    case StartFailure::Phase::kConfig:
      return "CreateContainerConfigError";
    case StartFailure::Phase::kCreate:
      return "CreateContainerError";
    case StartFailure::Phase::kStart:
      break;
  }
  return "RunContainerError";
}

EventNote RecordStartFailure(PodMemory& memory, const std::string& container, uint32_t attempt,
                             const StartFailure& failure, std::chrono::seconds back_off_cap,
                             WallTime wall, BootTime boot) {
  ContainerMemory& mine = memory.containers[container];
  const std::string& text = failure.error.message();
  const bool started = failure.phase == StartFailure::Phase::kStart;
  if (started) {
    BeginAttempt(mine, attempt, back_off_cap, wall);
    Finished finished;
    finished.attempt = attempt;
    finished.exit_code = kStartErrorCode;
    finished.reason = "StartError";
    finished.message = text;
    finished.started_at = wall;
    finished.finished_at = wall;
    Finish(mine, std::move(finished));
  }
  mine.failure =
      Failure{ReasonOf(failure.phase), text, boot + (started ? kShowStartError : kSyncBackOff)};
  return EventNote{true, "Failed", StrCat("Error: ", text), container, false};
}

void RecordSignalled(PodMemory& memory, const std::string& container, WallTime wall,
                     BootTime boot) {
  ContainerMemory& mine = memory.containers[container];
  if (!mine.stop) return;
  mine.stop->signalled_at = wall;
  mine.stop->signalled_boot = boot;
}

void RecordKilled(PodMemory& memory, const std::string& container, BootTime boot) {
  ContainerMemory& mine = memory.containers[container];
  if (mine.stop) mine.stop->next_kill = boot + std::chrono::seconds(1);
}

void RecordSandbox(PodMemory& memory, std::vector<std::string> pod_ips) {
  memory.sandbox_made = true;
  if (memory.failure && memory.failure->reason != "FailedMount") memory.failure.reset();
  memory.pod_ips = std::move(pod_ips);
}

}  // namespace holdfast::agent
