// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/pending.h"

#include <algorithm>
#include <ranges>

#include "agent/objects/references.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

bool ArePending(const corev1::Pod& pod, const PodInputs& inputs) {
  const PodUid uid(pod.metadata().uid());
  if (!inputs.ServiceVariables(pod.metadata().namespace_(), false)) return true;
  const PodReferences references = ReferencesOf(pod);
  return std::ranges::any_of(references.objects | std::views::keys,
                             [&](const ObjectRef& ref) {
                               return inputs.Object(uid, ref).state == InputState::kPending;
                             }) ||
         std::ranges::any_of(references.tokens, [&](const TokenRef& ref) {
           return inputs.Token(uid, ref.audience, ref.life).state == InputState::kPending;
         });
}

}  // namespace holdfast::agent
