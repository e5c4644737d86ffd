// SPDX-License-Identifier: Apache-2.0
// Whether the images that a container needs, its own and those of its volumes, can be used, and the
// waiting states when they cannot.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/volume_kinds.h"
#include "agent/pod/decide/back_off.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kRetry{10};
constexpr char kRegistryUnavailable[] = "RegistryUnavailable";
constexpr char kSignatureValidationFailed[] = "SignatureValidationFailed";
// How long ErrImagePull is shown before ImagePullBackOff takes over.
constexpr std::chrono::seconds kShowPullError{2};

struct WantedImage {
  const std::string& reference;  // the spec's
  const std::string& policy;
};

// Those of volumes come first, as by a kubelet.
std::vector<WantedImage> WantedImages(const Planning& p, const SpecContainer& c) {
  std::vector<WantedImage> wanted;
  for (const corev1::Volume* volume : kube::MountedImages(p.pod.spec(), *c.spec)) {
    const corev1::ImageVolumeSource& source = volume->volumesource().image();
    wanted.push_back({source.reference(), source.pullpolicy()});
  }
  wanted.push_back({c.spec->image(), c.spec->imagepullpolicy()});
  return wanted;
}

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

Action PullOf(const SpecContainer& c, const ContainerMemory& mine, const std::string& image) {
  Action pull{Action::Kind::kPull, c.name()};
  pull.attempt = mine.attempts;
  pull.image = image;
  return pull;
}

bool IsPullFailure(const std::string& reason) {
  return reason == "ErrImagePull" || reason == kRegistryUnavailable ||
         reason == kSignatureValidationFailed;
}

// ErrImagePull stays on show for a moment, then the back-off. True while there is to be no pull.
bool WaitsForPull(Planning& p, const SpecContainer& c, const std::string& image) {
  ContainerMemory& mine = p.Memory(c);
  const BackOff& back_off = mine.image_back_off;
  if (mine.failure && IsPullFailure(mine.failure->reason) &&
      p.facts.boot < mine.failure->retry_at) {
    Wait(p, c, Failure(*mine.failure));
    return true;
  }
  if (back_off.delay.count() == 0 || p.facts.boot >= back_off.not_before) return false;
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

void PlanPull(Planning& p, const SpecContainer& c, const std::string& image) {
  ContainerMemory& mine = p.Memory(c);
  const Action pull = PullOf(c, mine, image);
  // What the try before this one ended with stays on show until this one has ended.
  if (mine.failure && IsImageReason(mine.failure->reason)) p.waiting[c.name()] = *mine.failure;
  if (IsUnderWay(p, pull)) return p.Act(pull);
  if (WaitsForPull(p, c, image) || p.facts.inputs.secrets_pending) return;
  p.Act(pull);
}

// As a kubelet tells them apart: by how the error begins.
Failure PullFailure(const std::string& image, const std::string& error) {
  const auto told = [&](std::string_view reason, std::string_view why) {
    return Failure{
        std::string(reason),
        StrCat("image pull failed for ", image, " because the ", why, error.substr(reason.size())),
        {}};
  };
  if (error.starts_with(kRegistryUnavailable)) {
    return told(kRegistryUnavailable, "registry is unavailable");
  }
  if (error.starts_with(kSignatureValidationFailed)) {
    return told(kSignatureValidationFailed, "signature validation failed");
  }
  return {"ErrImagePull", error, {}};
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

bool PresentOrPull(Planning& p, const SpecContainer& c, const WantedImage& image, bool present) {
  const ContainerMemory& mine = p.Memory(c);
  const bool was_pulled = mine.pulled.contains({mine.attempts, image.reference});
  if (present && (image.policy != "Always" || was_pulled)) return true;
  if (image.policy == "Never") {
    // It may be here for those who have a login.
    if (p.facts.inputs.secrets_pending) return false;
    WaitAndTell(p, c, "ErrImageNeverPull", "ErrImageNeverPull",
                StrCat("Container image \"", image.reference,
                       "\" is not present with pull policy of Never"));
  } else {
    PlanPull(p, c, image.reference);
  }
  return false;
}

bool OneIsThere(Planning& p, const SpecContainer& c, const WantedImage& wanted) {
  const auto it = p.facts.images.find(wanted.reference);
  if (it == p.facts.images.end()) return false;
  const ImageFact& image = it->second;
  switch (image.state) {
    case ImageFact::State::kPresent:
      return PresentOrPull(p, c, wanted, true);
    case ImageFact::State::kAbsent:
      return PresentOrPull(p, c, wanted, false);
    case ImageFact::State::kInvalidName:
      WaitAndTell(
          p, c, "InspectFailed", "InvalidImageName",
          StrCat("Failed to apply default image tag \"", wanted.reference, "\": ", image.error));
      return false;
    case ImageFact::State::kError:
      WaitAndTell(p, c, "InspectFailed", "ImageInspectError",
                  StrCat("Failed to inspect image \"", wanted.reference, "\": ", image.error));
      return false;
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
  p.Event(false, "Pulling", StrCat("Pulling image \"", pull.image, "\""), c);
}

void FoldPulled(Planning& p, const OperationEnd& end) {
  const SpecContainer* c = ContainerOf(p, end.action);
  if (c == nullptr || !end.pulled) return;
  ContainerMemory& mine = p.Memory(*c);
  std::erase_if(mine.pulled, [&](const auto& old) { return old.first != end.action.attempt; });
  mine.pulled.emplace(end.action.attempt, end.action.image);
  if (end.action.image == c->spec->image()) mine.announced_image = end.action.attempt;
  mine.image_back_off = {};
  if (mine.failure && IsImageReason(mine.failure->reason)) mine.failure.reset();
  p.Event(false, "Pulled",
          StrCat("Successfully pulled image \"", end.action.image, "\" in ",
                 GoDuration(end.pulled->pulling), " (", GoDuration(end.pulled->total),
                 " including waiting). Image size: ", end.pulled->size_bytes, " bytes."),
          c);
}

void FoldPullFailed(Planning& p, const OperationEnd& end) {
  const SpecContainer* c = ContainerOf(p, end.action);
  if (c == nullptr) return;
  ContainerMemory& mine = p.Memory(*c);
  p.Event(true, "Failed", StrCat("Failed to pull image \"", end.action.image, "\": ", end.error),
          c);
  Failure failure = PullFailure(end.action.image, end.error);
  failure.retry_at = end.boot + kShowPullError;
  p.Event(true, "Failed", StrCat("Error: ", failure.reason), c);
  NextImageBackOff(mine.image_back_off, end.wall, end.boot);
  mine.failure = std::move(failure);
}

bool ImagesAreThere(Planning& p, const SpecContainer& c) {
  if (!std::ranges::all_of(WantedImages(p, c),
                           [&](const WantedImage& wanted) { return OneIsThere(p, c, wanted); })) {
    return false;
  }
  p.Memory(c).image_back_off = {};
  return true;
}

}  // namespace holdfast::agent
