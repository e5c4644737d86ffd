// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/image_users.h"

#include <algorithm>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_status.h"
#include "agent/pod/decide/spec_containers.h"
#include "holdfast/base/strings.h"
#include "runtime/image/documents/reference.h"

namespace holdfast::agent {
namespace {

bool IsNamed(const Image& image, const std::string& text) {
  if (text == image.id.value || StrCat("sha256:", text) == image.id.value) return true;
  const auto reference = runtime::ParseReference(text);
  if (!reference) return false;
  const std::string name = reference->Name();
  return std::ranges::find(image.repo_tags, name) != image.repo_tags.end() ||
         std::ranges::find(image.repo_digests, name) != image.repo_digests.end();
}

bool NeedsImage(const corev1::Pod& pod, const SpecContainer& container, const Image& image) {
  const corev1::ContainerStatus* status = kube::StatusOf(pod, container.name());
  if (status != nullptr && status->state().has_running()) {
    // Shown by its repo digest, or by its id where none was known.
    return status->imageid() == image.id.value ||
           std::ranges::find(image.repo_digests, status->imageid()) != image.repo_digests.end();
  }
  if (pod.metadata().has_deletiontimestamp()) return false;  // nothing is started any more
  if (status != nullptr && status->state().has_terminated() &&
      (container.role == Role::kEphemeral ||
       !RestartsAfter(pod, container, status->state().terminated().exitcode()))) {
    return false;
  }
  return IsNamed(image, container.spec->image());
}

}  // namespace

std::string UserOfImage(const std::vector<PodPtr>& pods, const Image& image) {
  for (const PodPtr& pod : pods) {
    if (kube::IsTerminalPhase(pod->status().phase())) continue;
    for (const SpecContainer& container : ContainersOf(*pod)) {
      if (!NeedsImage(*pod, container, image)) continue;
      return StrCat("container ", container.name(), " of pod ", pod->metadata().namespace_(), "/",
                    pod->metadata().name());
    }
    if (pod->metadata().has_deletiontimestamp()) continue;
    for (const corev1::Volume& volume : pod->spec().volumes()) {
      if (!IsNamed(image, volume.volumesource().image().reference())) continue;
      return StrCat("volume ", volume.name(), " of pod ", pod->metadata().namespace_(), "/",
                    pod->metadata().name());
    }
  }
  return "";
}

NeededImages::NeededImages(const std::vector<PodPtr>& pods) {
  for (const PodPtr& pod : pods) {
    for (const SpecContainer& container : ContainersOf(*pod)) {
      Add(container.spec->image());
      if (const auto* status = kube::StatusOf(*pod, container.name())) Add(status->imageid());
    }
    for (const auto& volume : pod->spec().volumes()) {
      Add(volume.volumesource().image().reference());
    }
  }
}

void NeededImages::Add(const std::string& text) {
  if (text.empty()) return;
  names_.insert(text);
  if (const auto reference = runtime::ParseReference(text)) names_.insert(reference->Name());
}

bool NeededImages::Has(const Image& image) const {
  const auto named = [this](const std::string& name) { return names_.contains(name); };
  return named(image.id.value) || named(image.id.value.substr(image.id.value.find(':') + 1)) ||
         std::ranges::any_of(image.repo_tags, named) ||
         std::ranges::any_of(image.repo_digests, named);
}

}  // namespace holdfast::agent
