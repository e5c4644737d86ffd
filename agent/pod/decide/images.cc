// SPDX-License-Identifier: Apache-2.0
// Whether a container's image can be used, and the waiting states when it cannot.
#include <utility>

#include "agent/pod/decide/back_off.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kRetry{10};
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

// A pull that fails at once, then the back-off: an image gets into the store by import only.
void PullInVain(Planning& p, const SpecContainer& c, const std::string& why) {
  ContainerMemory& mine = p.Memory(c);
  const std::string& image = c.spec->image();
  BackOff& back_off = mine.image_back_off;
  if (back_off.delay.count() != 0 && p.facts.boot < back_off.not_before) {
    const std::string message =
        StrCat("Back-off pulling image \"", image, "\": ErrImagePull: ", why);
    if (!mine.failure || mine.failure->reason != "ImagePullBackOff") {
      p.Event(false, "BackOff", StrCat("Back-off pulling image \"", image, "\""), &c);
      p.Event(true, "Failed", "Error: ImagePullBackOff", &c);
    }
    Wait(p, c, Failure{"ImagePullBackOff", message, back_off.not_before});
    return;
  }
  p.Event(false, "Pulling", StrCat("Pulling image \"", image, "\""), &c);
  p.Event(true, "Failed", StrCat("Failed to pull image \"", image, "\": ", why), &c);
  p.Event(true, "Failed", "Error: ErrImagePull", &c);
  NextImageBackOff(back_off, p.facts.wall, p.facts.boot);
  Wait(p, c,
       Failure{"ErrImagePull", StrCat("failed to pull image \"", image, "\": ", why),
               p.facts.boot + kShowPullError});
}

void ImageIsAbsent(Planning& p, const SpecContainer& c) {
  const std::string& image = c.spec->image();
  if (c.spec->imagepullpolicy() == "Never") {
    WaitAndTell(p, c, "ErrImageNeverPull", "ErrImageNeverPull",
                StrCat("Container image \"", image, "\" is not present with pull policy of Never"));
    return;
  }
  PullInVain(p, c,
             "it is not in the image store and this agent has no registry client; put it there "
             "with: holdctl image import FILE");
}

}  // namespace

bool ImageIsThere(Planning& p, const SpecContainer& c) {
  const auto it = p.facts.images.find(c.spec->image());
  if (it == p.facts.images.end()) return false;
  const ImageFact& image = it->second;
  ContainerMemory& mine = p.Memory(c);
  switch (image.state) {
    case ImageFact::State::kPresent:
      mine.image_back_off = {};
      return true;
    case ImageFact::State::kAbsent:
      // ErrImagePull stays on show for a moment; an image that appears is seen at once all the
      // same.
      if (mine.failure && mine.failure->reason == "ErrImagePull" &&
          p.facts.boot < mine.failure->retry_at) {
        p.WakeAt(mine.failure->retry_at);
        p.waiting[c.name()] = *mine.failure;
        return false;
      }
      ImageIsAbsent(p, c);
      return false;
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
