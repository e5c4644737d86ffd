// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_worker.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/kube/times.h"
#include "agent/pod/admit/left_out.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/log_tail.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

// Rounds of one Sync: start → observe → …; a pod that changes all the time yields to others.
constexpr int kMaxRounds = 12;
// How long a pod may go on while others wait. Enough for the whole start of a usual pod; one whose
// starts take long, or fail one after the other, takes turns.
constexpr std::chrono::milliseconds kTurn{500};
constexpr std::chrono::seconds kRetry{10};
constexpr std::chrono::milliseconds kNextRound{20};

corev1::Pod Shown(const corev1::Pod& pod, const corev1::PodStatus& status) {
  corev1::Pod shown = pod;
  *shown.mutable_status() = status;
  return shown;
}

}  // namespace

PodWorker::PodWorker(PodServices& services, std::shared_ptr<const corev1::Pod> pod,
                     PodMemory memory)
    : services_(services),
      pod_(std::move(pod)),
      paths_(services.state.Paths(*pod_)),
      memory_(std::move(memory)) {
  // Its place is taken, whatever the node has by now.
  const bool leaving = memory_.ending && memory_.ending->why == Ending::Why::kDeleted;
  const bool taken = memory_.admission && memory_.admission->admitted();
  if (services_.admission != nullptr && taken && !leaving && memory_.terminal_phase.empty()) {
    services_.admission->Adopt(*pod_);
  }
}

void PodWorker::EnsureAdmission() {
  if (memory_.admission) return;
  memory_.admission =
      services_.admission != nullptr ? services_.admission->Admit(*pod_) : Admission{};
}

void PodWorker::GiveUpPlace() {
  if (services_.admission != nullptr) services_.admission->Release(pod_->metadata().uid());
}

void PodWorker::Show(std::optional<std::chrono::seconds> deletion_grace) {
  const PodFacts facts = Observe(deletion_grace);
  PublishStatus(Decide(facts, PodMemory(memory_)).status, deletion_grace);
}

void PodWorker::ShowNew() {
  memory_.start_time = services_.clock.Wall();
  corev1::PodStatus status;
  status.set_phase("Pending");
  kube::SetTime(memory_.start_time, status.mutable_starttime());
  PublishStatus(status, std::nullopt);
}

PodWorker::Outcome PodWorker::Sync(std::optional<std::chrono::seconds> deletion_grace,
                                   const std::function<bool()>& others_wait) {
  const BootTime began = services_.clock.Boot();
  // A deletion, and a shorter one, outweighs what was decided before it.
  if (deletion_grace != decided_grace_) left_.clear();
  for (int round = 0; round < kMaxRounds; ++round) {
    if (left_.empty()) {
      if (const auto nothing_to_do = DecideNext(deletion_grace)) return *nothing_to_do;
    }
    bool all_done = true;
    while (!left_.empty() && all_done) {
      const Action action = std::move(left_.front());
      left_.pop_front();
      all_done = Execute(action);
      if (gone_) return {.wake_at = std::nullopt, .gone = true};
      if (all_done && services_.clock.Boot() - began > kTurn && others_wait()) {
        return {.wake_at = std::nullopt, .yielded = true};
      }
    }
    left_.clear();
    // A failure that is in the memory ends in a decision without actions; any other one waits.
    if (!all_done && !memory_.failure) return {.wake_at = services_.clock.Boot() + kRetry};
  }
  return {.wake_at = services_.clock.Boot() + kNextRound};
}

std::optional<PodWorker::Outcome> PodWorker::DecideNext(
    std::optional<std::chrono::seconds> deletion_grace) {
  const PodFacts facts = Observe(deletion_grace);
  Decision decision = Decide(facts, std::move(memory_));
  memory_ = std::move(decision.memory);
  if (!memory_.terminal_phase.empty()) GiveUpPlace();
  PublishStatus(decision.status, deletion_grace);
  services_.view.AddEvents(*pod_, decision.events);
  // Nothing is done that could not be remembered.
  if (auto saved = Persist(); !saved) {
    TellUnsaved(saved.error().message());
    // A deletion goes on: it makes room, and a successor sees by itself that nobody wants the pod.
    if (!deletion_grace) return Outcome{.wake_at = services_.clock.Boot() + kRetry};
  }
  if (decision.actions.empty()) return Outcome{.wake_at = decision.wake_at};
  left_.assign(std::make_move_iterator(decision.actions.begin()),
               std::make_move_iterator(decision.actions.end()));
  decided_grace_ = deletion_grace;
  return std::nullopt;
}

PodFacts PodWorker::Observe(std::optional<std::chrono::seconds> deletion_grace) {
  const auto node = services_.node();
  node_facts_ = NodeFacts{node->node_name, node->host_ips, node->memory_capacity_bytes,
                          services_.max_back_off};
  const PodUid uid(pod_->metadata().uid());
  PodFacts facts;
  facts.pod = pod_.get();
  facts.deletion_grace = deletion_grace;
  const ObservedPod seen = services_.runtime.Observe(uid);
  for (const ObservedContainer& c : seen.containers) facts.containers.push_back(Look(c));
  if (!links_checked_) EnsureLogLinks(facts.containers);
  links_checked_ = true;
  facts.sandbox_exists = seen.sandbox || !services_.network.Addresses(uid).empty();
  facts.sandbox_ready = SandboxReady(seen);
  facts.volumes_ready = volumes_ready_;
  for (const SpecContainer& c : ContainersOf(*pod_)) {
    const std::string& image = c.spec->image();
    if (!facts.images.contains(image) && NeedsImage(memory_, c.name())) {
      facts.images[image] = LookAtImage(image);
    }
  }
  facts.node = &node_facts_;
  facts.wall = services_.clock.Wall();
  facts.boot = services_.clock.Boot();
  return facts;
}

// One that is not in the memory was cut short: its namespaces or addresses may be there, its routes
// or files not yet.
bool PodWorker::SandboxReady(const ObservedPod& seen) {
  if (!memory_.sandbox_made || !seen.sandbox || !seen.sandbox->ready) return false;
  return pod_->spec().hostnetwork() ||
         !services_.network.Addresses(PodUid(pod_->metadata().uid())).empty();
}

// The texts of an exited container are read once: afterwards they are in the memory.
ContainerFact PodWorker::Look(const ObservedContainer& observed) {
  ContainerFact fact;
  fact.observed = observed;
  if (!observed.exit) return fact;
  const auto mine = memory_.containers.find(observed.name);
  if (mine != memory_.containers.end() && mine->second.last &&
      mine->second.last->attempt >= observed.attempt) {
    return fact;
  }
  // Our own path: the container sees only a mount of the file.
  auto file = sys::OpenAt(AT_FDCWD, paths_.TerminationLog(observed.name, observed.attempt),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file) {
    fact.termination_file.resize(kTerminationFileBytes);
    const ssize_t n = ::pread(file->get(), fact.termination_file.data(), kTerminationFileBytes, 0);
    fact.termination_file.resize(n > 0 ? static_cast<size_t>(n) : 0);
  }
  if (observed.exit->exit_code != 0 && fact.termination_file.empty()) {
    const auto logs = sys::OpenDirBelow(paths_.LogRoot(), paths_.ContainerLogs(observed.name));
    if (logs) fact.log_tail = ReadLogTail(logs->get(), PodPaths::LogFileName(observed.attempt));
  }
  return fact;
}

ImageFact PodWorker::LookAtImage(const std::string& reference) {
  ImageFact fact;
  auto image = services_.images.Get(reference);
  if (image) {
    fact.state = ImageFact::State::kPresent;
    fact.id = image->id.value;
    fact.digest = image->repo_digests.empty() ? "" : image->repo_digests.front();
    fact.name = image->repo_tags.empty() ? reference : image->repo_tags.front();
    fact.stop_signal = image->config.stop_signal;
    return fact;
  }
  fact.error = image.error().message();
  switch (image.error().code()) {
    case Code::kNotFound:
      fact.state = ImageFact::State::kAbsent;
      break;
    case Code::kInvalidArgument:
      fact.state = ImageFact::State::kInvalidName;
      break;
    default:
      fact.state = ImageFact::State::kError;
      break;
  }
  return fact;
}

void PodWorker::PublishStatus(const corev1::PodStatus& status,
                              std::optional<std::chrono::seconds> deletion_grace) {
  corev1::Pod shown = Shown(*pod_, status);
  if (!shown.metadata().has_creationtimestamp()) {
    *shown.mutable_metadata()->mutable_creationtimestamp() = status.starttime();
  }
  if (deletion_grace && memory_.ending) {
    const auto since = memory_.ending->since + memory_.ending->grace;
    auto* meta = shown.mutable_metadata();
    meta->mutable_deletiontimestamp()->set_seconds(
        std::chrono::floor<std::chrono::seconds>(since.since_epoch).count());
    meta->set_deletiongraceperiodseconds(memory_.ending->grace.count());
  }
  services_.view.Put(std::move(shown));
}

// Once for each reason: a full disk stays full for a while.
void PodWorker::TellUnsaved(const std::string& why) {
  if (std::exchange(unsaved_, why) == why) return;
  services_.log(StrCat("pod ", PodLabel(*pod_), ": ", why, ", trying again every 10 s"));
  Publish({true, "FailedSync", StrCat("error saving the state of the pod: ", why), "", false});
}

void PodWorker::Publish(EventNote note) { services_.view.AddEvents(*pod_, {std::move(note)}); }

Result<void> PodWorker::Persist() {
  if (!pod_saved_) {
    RETURN_IF_ERROR(services_.state.SavePod(*pod_));
    pod_saved_ = true;
    const bool runs = !memory_.admission || memory_.admission->admitted();
    if (runs) services_.view.AddEvents(*pod_, LeftOut(*pod_));
  }
  std::string record = EncodeRecord(memory_);
  if (record == saved_record_) return {};
  RETURN_IF_ERROR(services_.state.SaveRecord(*pod_, record));
  saved_record_ = std::move(record);
  unsaved_.clear();
  return {};
}

}  // namespace holdfast::agent
