// SPDX-License-Identifier: Apache-2.0
// PodWorld: decide() with a make-believe world around it: actions succeed as the test says, time
// moves when the test moves it.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

// The spec of most pods here.
inline constexpr char kOne[] = R"(containers { name: "app" image: "x" })";

inline corev1::Pod MakePod(const std::string& spec_text) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_name("web-n1");
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_metadata()->set_uid("u1");
  auto* spec = pod.mutable_spec();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec_text, spec)) << spec_text;
  if (spec->restartpolicy().empty()) spec->set_restartpolicy("Always");
  if (!spec->has_terminationgraceperiodseconds()) spec->set_terminationgraceperiodseconds(30);
  return pod;
}

class PodWorld {
 public:
  explicit PodWorld(const std::string& spec_text) : pod(MakePod(spec_text)) {
    node.name = "n1";
    node.host_ips = {"192.0.2.1"};
    node.memory_capacity_bytes = 1ll << 30;
    for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
      for (const auto& c : *list) {
        images[c.image()] = {ImageFact::State::kPresent, "sha256:1", "docker.io/x:1", "", ""};
      }
    }
  }

  // One decision; its actions as text. Nothing is carried out.
  std::vector<std::string> Look() {
    PodFacts facts;
    facts.pod = &pod;
    facts.asked = asked ? &*asked : &pod;
    facts.resize = std::exchange(verdict, std::nullopt);
    facts.deletion_grace = deletion_grace;
    facts.object_gone = object_gone;
    facts.eviction = eviction;
    facts.containers = containers;
    facts.sandbox_ready = sandbox_ready;
    facts.sandbox_dying = sandbox_dying;
    facts.sandbox_exists = sandbox_exists;
    memory.volumes_made = volumes_ready;
    facts.images = images;
    facts.inputs = inputs;
    facts.probes = probes;
    facts.network_problem = network_problem;
    facts.under_way = under_way;
    facts.ended = std::exchange(ended, {});
    facts.node = &node;
    facts.wall = wall;
    facts.boot = boot;
    last = Decide(facts, memory);
    memory = last.memory;
    for (const EventNote& note : last.events) events.push_back(note.reason + ": " + note.message);
    std::vector<std::string> out;
    for (const Action& action : last.actions) out.push_back(ToString(action));
    return out;
  }

  // Decides and carries out until nothing is left to do; all actions as text.
  std::vector<std::string> Run() {
    std::vector<std::string> all;
    for (int round = 0; round < 20; ++round) {
      const auto now = Look();
      if (now.empty()) return all;
      for (const Action& action : last.actions) {
        CarryOut(action);
        all.push_back(ToString(action));
        if (action.kind == Action::Kind::kCleanUp) return all;
      }
    }
    ADD_FAILURE() << "no end of actions";
    return all;
  }

  void CarryOut(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kEnsureVolumes:
        volumes_ready = true;
        memory.volumes_version = inputs.version;
        memory.volumes_show = memory.volumes_will_show;
        break;
      case Action::Kind::kEnsureSandbox:
        sandbox_ready = sandbox_exists = true;
        RecordSandbox(memory, {"10.88.0.2"});
        break;
      case Action::Kind::kResize:
        EndResize(action);
        break;
      case Action::Kind::kPull:
        EndPull(action);
        break;
      case Action::Kind::kStart: {
        StartedContainer started;
        started.id = ContainerId(StrCat(action.container, "-", action.attempt));
        started.started_at = wall;
        RecordStarted(memory, action.container, action.attempt, started, node.max_back_off, wall);
        ContainerFact fact;
        fact.observed.id = started.id;
        fact.observed.name = action.container;
        fact.observed.attempt = action.attempt;
        fact.observed.started_at = wall;
        containers.push_back(fact);
        break;
      }
      case Action::Kind::kPostStart:
      case Action::Kind::kPreStop:
        End(action, hook_error);
        break;
      case Action::Kind::kSignal:
        RecordSignalled(memory, action.container, wall, boot);
        break;
      case Action::Kind::kKill:
        RecordKilled(memory, action.container, boot);
        Exit(action.container, 137, 9);
        break;
      case Action::Kind::kRemove:
        std::erase_if(containers, [&](const auto& c) { return c.observed.id == action.id; });
        break;
      case Action::Kind::kRemoveSandbox:
        sandbox_ready = sandbox_exists = false;
        break;
      case Action::Kind::kReleaseVolumes:
        memory.released = true;
        break;
      case Action::Kind::kCleanUp:
        cleaned = true;
        break;
    }
  }

  // As PodJob does it: with what the pod was given when that began.
  void EndResize(const Action& action) {
    End(action, resize_error);
    if (!resize_error.empty()) return;
    for (const SpecContainer& c : ContainersOf(pod)) {
      const auto& run = memory.containers[c.name()].current;
      if (run) ended.back().resized[run->id] = EffectiveAmounts(pod, *c.spec);
    }
    ended.back().resized_pod = PodAmounts(pod);
  }

  // What an operation came to; `error`: it failed.
  void End(const Action& action, const std::string& error) {
    OperationEnd end;
    end.action = action;
    end.how = error.empty() ? OperationEnd::How::kDone : OperationEnd::How::kFailed;
    end.error = error;
    end.wall = wall;
    end.boot = boot;
    ended.push_back(end);
  }

  // A probe of the run of that container that goes on.
  void Probed(const std::string& name, ProbeKind kind, ProbeResult result) {
    const auto& run = memory.containers[name].current;
    ASSERT_TRUE(run) << name;
    probes.push_back({run->id, kind, result});
  }

  // The probes that were wanted last: "readiness web".
  std::vector<std::string> Wanted() const {
    std::vector<std::string> out;
    for (const WantedProbe& probe : last.probes) {
      const char* const names[] = {"startup ", "readiness ", "liveness "};
      out.push_back(names[static_cast<size_t>(probe.kind)] + probe.container);
    }
    return out;
  }

  // A second's pull; of what `pull_error` names it fails.
  void EndPull(const Action& action) {
    const auto error = pull_errors.find(action.image);
    End(action, error == pull_errors.end() ? "" : error->second);
    if (error != pull_errors.end()) return;
    ended.back().pulled =
        PulledFact{std::chrono::milliseconds(1500), std::chrono::seconds(62), 1234};
    images[action.image] = {ImageFact::State::kPresent, "sha256:2", "docker.io/x:2", "", ""};
  }

  void Exit(const std::string& name, int code, int signal = 0) {
    for (ContainerFact& fact : containers) {
      if (fact.observed.name != name || fact.observed.exit) continue;
      fact.observed.state = ObservedContainer::State::kExited;
      model::ExitReport exit;
      exit.exit_code = code;
      exit.signal = signal;
      exit.finished_at = wall;
      fact.observed.exit = exit;
    }
  }

  void Pass(std::chrono::nanoseconds span) {
    wall = wall + span;
    boot = boot + span;
  }

  const corev1::ContainerStatus& Status(const std::string& name) const {
    for (const auto* list :
         {&last.status.containerstatuses(), &last.status.initcontainerstatuses()}) {
      for (const auto& status : *list) {
        if (status.name() == name) return status;
      }
    }
    ADD_FAILURE() << "no status of " << name;
    return last.status.containerstatuses(0);
  }

  // "Ready=False(ContainersNotReady)"
  std::string Condition(const std::string& type) const {
    for (const auto& c : last.status.conditions()) {
      if (c.type() != type) continue;
      return c.status() + (c.reason().empty() ? "" : "(" + c.reason() + ")");
    }
    return "absent";
  }

  // "waiting CrashLoopBackOff", "running", "terminated Error 1"
  std::string State(const std::string& name) const {
    const auto& state = Status(name).state();
    if (state.has_waiting()) return "waiting " + state.waiting().reason();
    if (state.has_running()) return "running";
    if (state.has_terminated()) {
      return StrCat("terminated ", state.terminated().reason(), " ", state.terminated().exitcode());
    }
    return "none";
  }

  // A restarted agent: what is not persisted is gone.
  void RestartAgent() {
    memory.active_deadline = {};
    probes = {};
    if (memory.ending) memory.ending->kill_at = {};
    for (auto& [name, mine] : memory.containers) {
      mine.restart_back_off.not_before = {};
      if (mine.stop) mine.stop->begun_boot = mine.stop->signalled_boot = mine.stop->next_kill = {};
    }
    volumes_ready = false;
    memory.volumes_version = 0;
    memory.volumes_show.clear();
    memory.released = false;
  }

  corev1::Pod pod;                       // with the amounts that it was given
  std::optional<corev1::Pod> asked;      // with those that it asks for
  std::optional<ResizeVerdict> verdict;  // shown to the next decision
  std::string resize_error;              // what the next resizes fail with
  NodeFacts node;
  PodMemory memory;
  Decision last;
  std::vector<std::string> events;
  std::vector<ContainerFact> containers;
  std::vector<OperationFact> under_way;
  std::vector<OperationEnd> ended;  // shown to the next decision
  std::map<std::string, ImageFact> images;
  std::map<std::string, std::string> pull_errors;  // by image
  InputsFact inputs;
  std::vector<ProbeFact> probes;
  std::string hook_error;  // what the next hooks fail with
  std::string network_problem;
  std::optional<std::chrono::seconds> deletion_grace;
  bool object_gone = false;
  std::optional<Eviction> eviction;
  bool sandbox_ready = false;
  bool sandbox_dying = false;
  bool sandbox_exists = false;
  bool volumes_ready = false;
  bool cleaned = false;
  WallTime wall{std::chrono::seconds(1'800'000'000)};
  BootTime boot{std::chrono::seconds(1000)};
};

using Actions = std::vector<std::string>;

}  // namespace holdfast::agent
