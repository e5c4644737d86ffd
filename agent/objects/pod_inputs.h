// SPDX-License-Identifier: Apache-2.0
// PodInputs: what pods are made from, of the API server or of files (file_pod_inputs.h): ConfigMaps, Secrets, claims and
// what they are bound to, classes of runtime, tokens of service accounts, variables of Services. Thread-safe; nothing here blocks. Source: join.md 1.3 and 6.6,
// control-plane.md section 6.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

// kPending: asked for, no answer yet. kAbsent: a 404 younger than the pod; of a token, that there is none to be had and
// the pod is to do without. kUnavailable: it cannot be had now, `why`
// says so; it is tried again.
enum class InputState : uint8_t { kPending, kPresent, kAbsent, kUnavailable };

enum class ObjectKind : uint8_t {
  kConfigMap,
  kSecret,
  kClaim,
  kVolume,
  kCsiDriver,
  kAttachment,
  kRuntimeClass
};

struct ObjectRef {
  ObjectKind kind = ObjectKind::kConfigMap;
  std::string object_namespace, name;  // no namespace: of the whole cluster
  auto operator<=>(const ObjectRef&) const = default;
};

// `data` and `binaryData` of a ConfigMap, or `data` of a Secret: its bytes are overwritten at its end. Of every other kind
// the object.
struct ObjectData {
  ObjectData() = default;
  ~ObjectData();
  ObjectData(const ObjectData&) = delete;
  ObjectData& operator=(const ObjectData&) = delete;

  std::string uid;  // "" of one that was kept by an agent before this field
  std::string version;
  bool immutable = false;
  std::map<std::string, std::string> values;
  std::set<std::string> binary;  // keys of binaryData: an environment does not have them
  std::shared_ptr<const google::protobuf::Message> object;
  bool settled = true;  // false: somebody else is still to fill it in, as who binds a claim
};

struct ObjectInput {
  InputState state = InputState::kPending;
  std::shared_ptr<const ObjectData> data;  // set exactly when it is present; shared by its pods
  std::string why;                         // in a kubelet's words: configmap "x" not found
  bool kept = false;                       // not of the server now: it was last known so
  bool operator==(const ObjectInput&) const = default;
};

struct TokenInput {
  InputState state = InputState::kPending;
  std::shared_ptr<const std::string> token;  // set exactly when it is present; wiped at its end
  std::string why;
  WallTime expires = {};  // of one that is present
  bool operator==(const TokenInput&) const = default;
};

class PodInputs {
 public:
  virtual ~PodInputs() = default;
  // At sight of the pod, and with each new version of it. Idempotent.
  virtual void Acquire(std::shared_ptr<const corev1::Pod> pod) = 0;
  // Its containers are gone: nothing more is asked for it.
  virtual void Release(const PodUid& uid) = 0;
  // A container is about to run again: what only its environment shows is asked for anew. Until the answer comes, what
  // was known stays.
  virtual void Refresh(const PodUid& uid) = 0;
  // Of what the pod does not refer to, and of a pod that was not acquired: pending.
  virtual ObjectInput Object(const PodUid& uid, const ObjectRef& ref) const = 0;
  virtual TokenInput Token(const PodUid& uid, const std::string& audience,
                           std::chrono::seconds life) const = 0;
  // "NAME=value" of the Services that a container of this pod, of that namespace, is told about; nullopt: not read yet.
  // `links`: all of them (enableServiceLinks), not only the API server's.
  virtual std::optional<std::vector<std::string>> ServiceVariables(const PodUid& uid,
                                                                   const std::string& ns,
                                                                   bool links) const = 0;
  // Grows with what the pod's volumes show, and each 60 to 90 s where a storage plugin wants to be asked anew
  // (CSIDriver's requiresRepublish) or a claim's file system is to grow; 0 when it was not acquired.
  virtual uint64_t VersionOf(const PodUid& uid) const = 0;
  // On the API thread, without a lock held; must not block. {} ends that.
  virtual void SetListener(std::function<void(const PodUid&)> changed) = 0;
};

}  // namespace holdfast::agent
