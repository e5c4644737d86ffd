// SPDX-License-Identifier: Apache-2.0
// How objects and tokens are asked for, and what the answers say. Pure; thread-safe. The bytes are
// untrusted; what is secret in them is overwritten as soon as it is read.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/cluster/reflector.h"
#include "agent/kube/types_fwd.h"
#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

ApiCall GetCall(const ObjectRef& ref);
// Whether a node has the right to watch it. The others it may only get.
bool MayBeWatched(const ObjectRef& ref);
// Follows this one object.
ReflectorOptions WatchOptions(const ObjectRef& ref);
kube::TypeMeta TypeOf(const ObjectRef& ref);

// Takes the values out of a ConfigMap or Secret, and all of another object; `object` is of TypeOf().
std::shared_ptr<const ObjectData> TakeData(std::shared_ptr<google::protobuf::Message> object);
// Of a 200.
Result<std::shared_ptr<const ObjectData>> ReadObject(const ObjectRef& ref, ApiReply& reply);

// Whose token it is, and of which pod.
struct TokenOwner {
  std::string object_namespace, service_account, pod_name;
  PodUid pod_uid;
};
TokenOwner TokenOwnerOf(const corev1::Pod& pod);
// `account_uid`: only of the account that has it; empty: whichever has the name.
ApiCall TokenCall(const TokenOwner& owner, const TokenRef& ref,
                  const std::string& account_uid = {});

struct IssuedToken {
  std::shared_ptr<const std::string> text;  // wiped at its end
  WallTime expires;  // status.expirationTimestamp, never the token's own claim
};
Result<IssuedToken> ReadToken(ApiReply& reply);

// The node's right to an object follows from the pod that is bound to it, and the server learns of that later than we
// do.
bool IsTooEarly(const ApiReply& reply);
// How long to wait before the next of such tries; `tries` were made.
std::chrono::milliseconds DelayWhenTooEarly(unsigned tries);
inline constexpr std::chrono::seconds kTooEarlyFor{5};

// What an event says of a refusal or of a failed call.
std::string WhyOf(const ObjectRef& ref, const ApiReply& reply);
std::string WhyOf(const ObjectRef& ref, const Error& error);
std::string TokenWhyOf(const ApiReply& reply);
std::string TokenWhyOf(const Error& error);

}  // namespace holdfast::agent
