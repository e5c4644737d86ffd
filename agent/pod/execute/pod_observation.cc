// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_observation.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ranges>

#include "agent/images/pod_logins.h"
#include "agent/images/pulled_images.h"
#include "agent/kube/volume_kinds.h"
#include "agent/log/log_tail.h"
#include "agent/objects/references.h"
#include "agent/pod/decide/decide.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/spec/input_values.h"
#include "agent/pod/spec/runtime_class.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

// After a container's end, for its log to be written; and when nothing of it is there yet.
constexpr std::chrono::milliseconds kSettling{100};
constexpr std::chrono::seconds kLongestSettling{1};

}  // namespace

void PodObservation::LookAtRuntime(PodFacts& facts) {
  const PodUid uid(pod_.metadata().uid());
  const ObservedPod seen = services_.runtime.Observe(uid);
  for (const ObservedContainer& c : seen.containers) facts.containers.push_back(Look(c));
  facts.sandbox_exists = seen.sandbox || services_.network.Holds(uid);
  facts.sandbox_ready = IsMade(facts) && seen.sandbox && seen.sandbox->ready && AddressesStand();
  facts.sandbox_dying = seen.sandbox && seen.sandbox->dying;
  facts.network_problem = services_.network.NotReadyBecause();
}

// The texts of an exited container are read once: afterwards they are in the memory.
ContainerFact PodObservation::Look(const ObservedContainer& observed) {
  ContainerFact fact;
  fact.observed = observed;
  if (!observed.exit) return fact;
  const auto mine = memory_.containers.find(observed.name);
  if (mine != memory_.containers.end() && mine->second.last &&
      mine->second.last->attempt >= observed.attempt) {
    return fact;
  }
  if (inputs_ != nullptr) inputs_->Refresh(PodUid(pod_.metadata().uid()));
  // Our own path: the container sees only a mount of the file.
  auto file = sys::OpenAt(AT_FDCWD, paths_.TerminationLog(observed.name, observed.attempt),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file) {
    fact.termination_file.resize(kTerminationFileBytes);
    const ssize_t n = ::pread(file->get(), fact.termination_file.data(), kTerminationFileBytes, 0);
    fact.termination_file.resize(n > 0 ? static_cast<size_t>(n) : 0);
  }
  if (observed.exit->exit_code != 0 && fact.termination_file.empty() && WantsTail(observed.name)) {
    const auto logs = sys::OpenDirBelow(paths_.LogRoot(), paths_.ContainerLogs(observed.name));
    if (logs) fact.log_tail = ReadLogTail(logs->get(), PodPaths::LogFileName(observed.attempt));
    LetLogSettle(fact);
  }
  return fact;
}

bool PodObservation::WantsTail(const std::string& container) const {
  const SpecContainer found = ContainerNamed(pod_, container);
  return found.spec != nullptr && found.spec->terminationmessagepolicy() == "FallbackToLogsOnError";
}

// The logger may be a moment behind the end of the process: until what it said last is in the file
// the container counts as running.
void PodObservation::LetLogSettle(ContainerFact& fact) {
  const auto ago = services_.clock.Wall() - fact.observed.exit->finished_at;
  const std::chrono::nanoseconds patience = fact.log_tail.empty() ? kLongestSettling : kSettling;
  if (ago < std::chrono::nanoseconds(0) || ago >= patience) return;
  fact.observed.exit.reset();
  fact.observed.state = ObservedContainer::State::kRunning;
  look_again_ = true;
}

ImageFact PodObservation::LookAtImage(const std::string& reference) const {
  ImageFact fact;
  auto image = services_.images.Get(reference);
  if (image && !MayUse(reference, *image)) return fact;  // as if it were not here
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

bool PodObservation::MayUse(const std::string& reference, const Image& image) const {
  if (services_.pulled_images == nullptr) return true;
  // What it ran with it keeps, also when nobody can say now what its Secrets hold.
  const bool ran = std::ranges::any_of(memory_.containers | std::views::values, [&](const auto& c) {
    return c.launch && c.launch->reference == reference && c.launch->image_id == image.id.value;
  });
  if (ran) return true;
  const auto secrets = [this] { return LoginsOfPod(pod_, inputs_).PullSecrets(); };
  return services_.pulled_images->MayUse(reference, image.id, PodUid(pod_.metadata().uid()),
                                         secrets);
}

// One that is not in the memory was cut short: its namespaces or addresses may be there, its routes
// or files not yet.
bool PodObservation::IsMade(const PodFacts& facts) const {
  return memory_.sandbox_made || std::ranges::any_of(facts.ended, [](const OperationEnd& end) {
           return end.action.kind == Action::Kind::kEnsureSandbox &&
                  end.how == OperationEnd::How::kDone;
         });
}

bool PodObservation::AddressesStand() const {
  return pod_.spec().hostnetwork() ||
         !services_.network.Addresses(PodUid(pod_.metadata().uid())).empty();
}

// What is pending is of interest only to who starts something or shows something new.
void PodObservation::LookAtInputs(PodFacts& facts) const {
  facts.inputs.version = inputs_->VersionOf(PodUid(pod_.metadata().uid()));
  facts.inputs.secrets_pending = PullSecretsArePending(pod_, *inputs_);
  facts.inputs.sandbox_pending = RuntimeClassIsPending(pod_, *inputs_);
  const bool all_run = std::ranges::all_of(ContainersOf(pod_), [this](const SpecContainer& c) {
    const auto mine = memory_.containers.find(c.name());
    if (mine == memory_.containers.end()) return false;
    return mine->second.current || HasRunOnce(c);
  });
  if (all_run && facts.inputs.version <= memory_.volumes_version) return;
  // A volume that cannot be had is told; an environment waits for what it cannot have yet.
  const PodReferences references = ReferencesOf(pod_, *inputs_);
  facts.inputs.pending =
      facts.inputs.sandbox_pending ||
      VolumeInputs(pod_, references, *inputs_).state == InputState::kPending ||
      EnvironmentInputs(pod_, references, *inputs_).state != InputState::kPresent;
}

void PodObservation::LookAtImages(PodFacts& facts) const {
  const auto look = [&](const std::string& image) {
    if (!facts.images.contains(image)) facts.images[image] = LookAtImage(image);
  };
  for (const SpecContainer& c : ContainersOf(pod_)) {
    if (!NeedsImage(memory_, c.name()) || HasRunOnce(c)) continue;
    look(c.spec->image());
    for (const corev1::Volume* volume : kube::MountedImages(pod_.spec(), *c.spec)) {
      look(volume->volumesource().image().reference());
    }
  }
}

// Nobody starts it again.
bool PodObservation::HasRunOnce(const SpecContainer& c) const {
  const auto mine = memory_.containers.find(c.name());
  return c.role == Role::kEphemeral && mine != memory_.containers.end() && mine->second.last;
}

}  // namespace holdfast::agent
