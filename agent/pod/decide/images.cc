// SPDX-License-Identifier: Apache-2.0
// Whether a container's image can be used, and the waiting states when it cannot.
#include <string_view>
#include <utility>

#include "agent/pod/decide/back_off.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kRetry{10};
constexpr char kRegistryUnavailable[] = "RegistryUnavailable";
// How long ErrImagePull is shown before ImagePullBackOff takes over.
constexpr std::chrono::seconds kShowPullError{2};

void Wait(Planning& p, const SpecContainer& c, Failure failure) {
  p.WakeAt(failure.retry_at);
  p.Memory(c).failure = failure;
  p.waiting[c.name()] = std::move(failure);
}

// A state that is looked at again after a while; the event is made when it is new.
void WaitAndTell(Planning& p, const SpecContainer& c, const std::string& event,
                 const std::string& reason, const std::string& message) {
  const auto& known = p.Memory(c).failure;
  if (!known || known->reason != reason || known->message != message) {
    p.Event(true, event, message, &c);
    p.Event(true, "Failed", StrCat("Error: ", reason), &c);
  }
  Wait(p, c, Failure{reason, message, p.facts.boot + kRetry});
}

Action PullOf(const SpecContainer& c, const ContainerMemory& mine) {
  Action pull{Action::Kind::kPull, c.name()};
  pull.attempt = mine.attempts;
  return pull;
}

bool IsPolicy(const SpecContainer& c, const char* policy) {
  return c.spec->imagepullpolicy() == policy;
}

bool WasPulled(const SpecContainer& c, const ContainerMemory& mine) {
  return mine.pulled == std::pair(mine.attempts, c.spec->image());
}

bool IsPullFailure(const std::string& reason) {
  return reason == "ErrImagePull" || reason == kRegistryUnavailable;
}

// ErrImagePull stays on show for a moment, then the back-off. True while there is to be no pull.
bool WaitsForPull(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  const BackOff& back_off = mine.image_back_off;
  if (mine.failure && IsPullFailure(mine.failure->reason) &&
      p.facts.boot < mine.failure->retry_at) {
    Wait(p, c, Failure(*mine.failure));
    return true;
  }
  if (back_off.delay.count() == 0 || p.facts.boot >= back_off.not_before) return false;
  const std::string& image = c.spec->image();
  if (mine.failure && mine.failure->reason == "ImagePullBackOff") {
    Wait(p, c, Failure{mine.failure->reason, mine.failure->message, back_off.not_before});
    return true;
  }
  const std::string why =
      mine.failure ? StrCat(mine.failure->reason, ": ", mine.failure->message) : "ErrImagePull: ";
  p.Event(false, "BackOff", StrCat("Back-off pulling image \"", image, "\""), &c);
  p.Event(true, "Failed", "Error: ImagePullBackOff", &c);
  Wait(p, c,
       Failure{"ImagePullBackOff", StrCat("Back-off pulling image \"", image, "\": ", why),
               back_off.not_before});
  return true;
}

void PlanPull(Planning& p, const SpecContainer& c) {
  ContainerMemory& mine = p.Memory(c);
  const Action pull = PullOf(c, mine);
  // What the try before this one ended with stays on show until this one has ended.
  if (mine.failure && IsImageReason(mine.failure->reason)) p.waiting[c.name()] = *mine.failure;
  if (IsUnderWay(p, pull)) return p.Act(pull);
  if (WaitsForPull(p, c) || p.facts.inputs.secrets_pending) return;
  p.Act(pull);
}

// As a kubelet tells them apart: by how the error begins.
Failure PullFailure(const std::string& image, const std::string& error) {
  if (!error.starts_with(kRegistryUnavailable)) return {"ErrImagePull", error, {}};
  return {kRegistryUnavailable,
          StrCat("image pull failed for ", image, " because the registry is unavailable",
                 error.substr(std::string_view(kRegistryUnavailable).size())),
          {}};
}

// "1.234s", "532ms", "2m5.1s", as Go prints a duration that was cut to milliseconds.
std::string GoDuration(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  if (ms == 0) return "0s";
  if (ms < 1000) return StrCat(ms, "ms");
  std::string seconds = std::to_string(ms / 1000 % 60);
  if (ms % 1000 != 0) {
    std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
    fraction.erase(fraction.find_last_not_of('0') + 1);
    seconds += "." + fraction;
  }
  const auto minutes = ms / 60'000;
  if (minutes == 0) return seconds + "s";
  if (minutes < 60) return StrCat(minutes, "m", seconds, "s");
  return StrCat(minutes / 60, "h", minutes % 60, "m", seconds, "s");
}

bool PresentOrPull(Planning& p, const SpecContainer& c, bool present) {
  ContainerMemory& mine = p.Memory(c);
  if (present && (!IsPolicy(c, "Always") || WasPulled(c, mine))) {
    mine.image_back_off = {};
    return true;
  }
  if (IsPolicy(c, "Never")) {
    // It may be here for those who have a login.
    if (p.facts.inputs.secrets_pending) return false;
    WaitAndTell(p, c, "ErrImageNeverPull", "ErrImageNeverPull",
                StrCat("Container image \"", c.spec->image(),
                       "\" is not present with pull policy of Never"));
  } else {
    PlanPull(p, c);
  }
  return false;
}

}  // namespace

bool IsImageReason(const std::string& reason) {
  return IsPullFailure(reason) || reason == "ImagePullBackOff" || reason == "ErrImageNeverPull" ||
         reason == "InvalidImageName" || reason == "ImageInspectError";
}

void TellPulling(Planning& p, const Action& pull) {
  const SpecContainer* c = ContainerOf(p, pull);
  if (c == nullptr) return;
  p.Event(false, "Pulling", StrCat("Pulling image \"", c->spec->image(), "\""), c);
}

void FoldPulled(Planning& p, const OperationEnd& end) {
  const SpecContainer* c = ContainerOf(p, end.action);
  if (c == nullptr || !end.pulled) return;
  ContainerMemory& mine = p.Memory(*c);
  mine.pulled = std::pair(end.action.attempt, c->spec->image());
  mine.announced_image = end.action.attempt;
  mine.image_back_off = {};
  if (mine.failure && IsImageReason(mine.failure->reason)) mine.failure.reset();
  p.Event(false, "Pulled",
          StrCat("Successfully pulled image \"", c->spec->image(), "\" in ",
                 GoDuration(end.pulled->pulling), " (", GoDuration(end.pulled->total),
                 " including waiting). Image size: ", end.pulled->size_bytes, " bytes."),
          c);
}

void FoldPullFailed(Planning& p, const OperationEnd& end) {
  const SpecContainer* c = ContainerOf(p, end.action);
  if (c == nullptr) return;
  ContainerMemory& mine = p.Memory(*c);
  p.Event(true, "Failed", StrCat("Failed to pull image \"", c->spec->image(), "\": ", end.error),
          c);
  Failure failure = PullFailure(c->spec->image(), end.error);
  failure.retry_at = end.boot + kShowPullError;
  p.Event(true, "Failed", StrCat("Error: ", failure.reason), c);
  NextImageBackOff(mine.image_back_off, end.wall, end.boot);
  mine.failure = std::move(failure);
}

bool ImageIsThere(Planning& p, const SpecContainer& c) {
  const auto it = p.facts.images.find(c.spec->image());
  if (it == p.facts.images.end()) return false;
  const ImageFact& image = it->second;
  switch (image.state) {
    case ImageFact::State::kPresent:
      return PresentOrPull(p, c, true);
    case ImageFact::State::kAbsent:
      return PresentOrPull(p, c, false);
    case ImageFact::State::kInvalidName:
      WaitAndTell(
          p, c, "InspectFailed", "InvalidImageName",
          StrCat("Failed to apply default image tag \"", c.spec->image(), "\": ", image.error));
      return false;
    case ImageFact::State::kError:
      WaitAndTell(p, c, "InspectFailed", "ImageInspectError",
                  StrCat("Failed to inspect image \"", c.spec->image(), "\": ", image.error));
      return false;
  }
  return false;
}

}  // namespace holdfast::agent
