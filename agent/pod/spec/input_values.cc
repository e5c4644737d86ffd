// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/input_values.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

void Add(InputState state, const std::string& why, InputsState& sum) {
  if (state == InputState::kPending) {
    sum = {InputState::kPending, ""};
  } else if (state == InputState::kUnavailable && sum.state == InputState::kPresent) {
    sum = {state, why};
  }
}

// Who attaches volumes to nodes tells of his troubles himself.
bool IsAwaited(const ObjectRef& ref, const ObjectInput& input) {
  return ref.kind == ObjectKind::kAttachment && (input.data == nullptr || !input.data->settled);
}

// Of the objects that `is_meant` says by their use.
template <class IsMeant>
InputsState ObjectsState(const PodReferences& references, const PodUid& uid,
                         const PodInputs& inputs, IsMeant is_meant) {
  InputsState sum;
  for (const auto& [ref, use] : references.objects) {
    if (!is_meant(use)) continue;
    const ObjectInput input = inputs.Object(uid, ref);
    Add(IsAwaited(ref, input) ? InputState::kPending : input.state, input.why, sum);
  }
  return sum;
}

}  // namespace

Result<std::shared_ptr<const ObjectData>> ObjectOf(const PodInputs& inputs, const PodUid& uid,
                                                   const ObjectRef& ref, bool optional) {
  ObjectInput input = inputs.Object(uid, ref);
  switch (input.state) {
    case InputState::kPresent:
      return std::move(input.data);
    case InputState::kAbsent:
      if (optional) return std::shared_ptr<const ObjectData>();
      return NotFound(input.why);
    case InputState::kUnavailable:
      return Unavailable(input.why);
    case InputState::kPending:
      break;
  }
  return Unavailable(NameOf(ref) + " has not been read yet");
}

InputsState VolumeInputs(const corev1::Pod& pod, const PodReferences& references,
                         const PodInputs& inputs) {
  const PodUid uid(pod.metadata().uid());
  InputsState sum =
      ObjectsState(references, uid, inputs, [](const ObjectUse& use) { return use.in_volume; });
  for (const TokenRef& ref : references.tokens) {
    const TokenInput input = inputs.Token(uid, ref.audience, ref.life);
    Add(input.state, input.why, sum);
  }
  return sum;
}

InputsState EnvironmentInputs(const corev1::Pod& pod, const PodReferences& references,
                              const PodInputs& inputs) {
  const PodUid uid(pod.metadata().uid());
  InputsState sum = ObjectsState(references, uid, inputs,
                                 [](const ObjectUse& use) { return use.in_environment; });
  const bool links = !pod.spec().has_enableservicelinks() || pod.spec().enableservicelinks();
  if (!inputs.ServiceVariables(uid, pod.metadata().namespace_(), links)) {
    Add(InputState::kPending, "", sum);
  }
  return sum;
}

}  // namespace holdfast::agent
