// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/runtime_class.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "agent/objects/references.h"
#include "agent/pod/spec/input_values.h"
#include "holdfast/base/strings.h"
#include "k8s/node/v1/runtime_class.pb.h"

namespace holdfast::agent {

namespace nodev1 = ::k8s::io::api::node::v1;

namespace {

ObjectRef ClassOf(const corev1::Pod& pod) {
  return {ObjectKind::kRuntimeClass, "", pod.spec().runtimeclassname()};
}

}  // namespace

bool RuntimeClassIsPending(const corev1::Pod& pod, const PodInputs& inputs) {
  const ObjectRef ref = ClassOf(pod);
  return !ref.name.empty() &&
         inputs.Object(PodUid(pod.metadata().uid()), ref).state == InputState::kPending;
}

Result<void> CheckRuntimeClass(const corev1::Pod& pod, const PodInputs& inputs,
                               const std::vector<std::string>& handlers) {
  const ObjectRef ref = ClassOf(pod);
  if (ref.name.empty()) return {};
  auto data = ObjectOf(inputs, PodUid(pod.metadata().uid()), ref, /*optional=*/false);
  if (!data && data.error().code() == Code::kNotFound) return std::move(data.error());
  if (!data) {
    return std::move(data.error()).Wrap(StrCat("failed to lookup RuntimeClass ", ref.name));
  }
  const auto* const found = ObjectIn<nodev1::RuntimeClass>(*data);
  const std::string handler = found == nullptr ? "" : found->handler();
  if (handler.empty() || std::ranges::find(handlers, handler) != handlers.end()) return {};
  return Unsupported(
      StrCat("failed to get sandbox runtime: no runtime for \"", handler, "\" is configured"));
}

}  // namespace holdfast::agent
