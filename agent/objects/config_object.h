// SPDX-License-Identifier: Apache-2.0
// ConfigObject: a ConfigMap or a Secret as a manifest has it, complete and valid. Immutable; its bytes
// are overwritten at its end, as those of an API server's objects.
#pragma once

#include <memory>
#include <string>

#include "agent/kube/field_error.h"
#include "agent/kube/types_fwd.h"
#include "agent/objects/pod_inputs.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

struct ConfigObject {
  ObjectRef ref;
  std::string type;  // of a Secret
  std::shared_ptr<const ObjectData> data;
  // As it is shown, but for the time: its UID follows from its kind and name.
  std::shared_ptr<const metav1::ObjectMeta> metadata;
  WallTime created = {};  // whoever keeps the object sets it
};
using ConfigObjectPtr = std::shared_ptr<const ConfigObject>;

// What an API server does with a Secret before it looks at it: `stringData` goes into `data`, where
// it wins.
void TakeStringData(corev1::Secret* secret);

// The values are taken out; what only the system sets does not count. Of a Secret the annotation that `kubectl apply`
// repeats the values in goes too.
ConfigObjectPtr TakeConfigObject(std::unique_ptr<corev1::ConfigMap> map);
ConfigObjectPtr TakeConfigObject(std::unique_ptr<corev1::Secret> secret);

bool HasSameContent(const ConfigObject& a, const ConfigObject& b);
bool HasSameMetadata(const ConfigObject& a, const ConfigObject& b);

// Why `now` may not take the place of `before`, whose name it has: an API server's words.
kube::FieldErrors CheckUpdate(const ConfigObject& before, const ConfigObject& now);

}  // namespace holdfast::agent
