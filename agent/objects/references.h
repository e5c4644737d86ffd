// SPDX-License-Identifier: Apache-2.0
// Which objects and tokens of the API server a pod refers to. Pure; thread-safe.
#pragma once

#include <chrono>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/objects/pod_inputs.h"

namespace holdfast::agent {

// What kind of use: a volume, and a sandbox that cannot be made yet, follow the object; an environment is made once.
struct ObjectUse {
  bool in_volume = false;
  bool in_environment = false;
  bool required = false;  // by an environment: without it the container does not start
  bool by_sandbox = false;
  bool operator==(const ObjectUse&) const = default;
};

struct TokenRef {
  std::string audience;  // "" is the API server's own
  std::chrono::seconds life{3600};
  auto operator<=>(const TokenRef&) const = default;
};

struct PodReferences {
  std::map<ObjectRef, ObjectUse> objects;
  std::set<TokenRef> tokens;
  // Its volumes are to be looked at again from time to time: a storage plugin wants that, or a claim is to grow.
  bool revisited = false;
  bool operator==(const PodReferences&) const = default;
};

// What is known of an object; null: nothing, yet.
using KnownObject = std::function<std::shared_ptr<const ObjectData>(const ObjectRef&)>;

// runtimeClassName, imagePullSecrets, env and envFrom of all containers, volumes of the kinds configMap, secret, projected,
// persistentVolumeClaim, ephemeral and csi; also what is optional. What a claim is bound to, and what a storage plugin
// needs, tokens included, follows from what is known of them.
PodReferences ReferencesOf(const corev1::Pod& pod, const KnownObject& known);
// By what `inputs` has.
PodReferences ReferencesOf(const corev1::Pod& pod, const PodInputs& inputs);

// The object of one of the kinds that are kept as such; null when `data` has another one, or none.
template <class Object>
const Object* ObjectIn(const std::shared_ptr<const ObjectData>& data) {
  return data == nullptr ? nullptr : dynamic_cast<const Object*>(data->object.get());
}

// The life that a projection asks for; an hour when it says nothing.
TokenRef TokenRefOf(const std::string& audience, int64_t expiration_seconds);

// Whether a volume of that plugin is used on a node only when its VolumeAttachment says so. `driver`: the CSIDriver's; null
// where there is none.
bool NeedsAttachment(const std::shared_ptr<const ObjectData>& driver);

// `configmap "x"`, `persistentvolumeclaims "x"`.
std::string NameOf(const ObjectRef& ref);
// `configmap "x" not found`, `persistentvolumeclaims "x" not found`, as a kubelet's events have it.
std::string NotFoundText(const ObjectRef& ref);

}  // namespace holdfast::agent
