// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/object_requests.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/times.h"
#include "agent/objects/object_kinds.h"
#include "holdfast/base/strings.h"
#include "k8s/authentication/v1/token.pb.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;
namespace authenticationv1 = ::k8s::io::api::authentication::v1;

void Wipe(std::string& text) { ::explicit_bzero(text.data(), text.size()); }

// Its buffer goes along; what lies inside the string object itself is overwritten.
template <class Values>
void TakeValues(Values& from, std::map<std::string, std::string>& to) {
  for (auto& [key, value] : from) {
    to.insert_or_assign(key, std::move(value));
    value.resize(value.capacity());  // NOLINT(bugprone-use-after-move): of what the move left
    Wipe(value);
    value.clear();
  }
}

std::string Collection(const ObjectRef& ref) {
  const ObjectKindRow& row = RowOf(ref.kind);
  const std::string_view version = row.api_version;
  return StrCat(version == "v1" ? "/api/" : "/apis/", version,
                row.namespaced ? StrCat("/namespaces/", ref.object_namespace) : "", "/",
                row.resource);
}

std::string Said(const ApiReply& reply) {
  if (!reply.message.empty()) return reply.message;
  return StrCat("the API server says ", reply.code, " ", kube::Quoted(reply.body, kMostOfAMessage));
}

// A claim is filled in by who binds it, an attachment by who attaches.
bool IsSettled(const google::protobuf::Message& object) {
  if (const auto* const attachment = dynamic_cast<const storagev1::VolumeAttachment*>(&object)) {
    return attachment->status().attached() && !attachment->metadata().has_deletiontimestamp();
  }
  const auto* const claim = dynamic_cast<const corev1::PersistentVolumeClaim*>(&object);
  return claim == nullptr ||
         (claim->status().phase() == "Bound" && !claim->spec().volumename().empty());
}

}  // namespace

ObjectData::~ObjectData() {
  for (auto& [key, value] : values) Wipe(value);
}

ApiCall GetCall(const ObjectRef& ref) {
  ApiCall call;
  call.path = StrCat(Collection(ref), "/", ref.name);
  call.lane = ApiLane::kObjects;
  call.repeatable = true;
  return call;
}

kube::TypeMeta TypeOf(const ObjectRef& ref) {
  const ObjectKindRow& row = RowOf(ref.kind);
  return {row.api_version, row.name};
}

bool MayBeWatched(const ObjectRef& ref) { return RowOf(ref.kind).watched; }

ReflectorOptions WatchOptions(const ObjectRef& ref) {
  return {Collection(ref), StrCat("fieldSelector=metadata.name%3D", ref.name), TypeOf(ref),
          ApiLane::kObjects};
}

std::shared_ptr<const ObjectData> TakeData(std::shared_ptr<google::protobuf::Message> taken) {
  auto data = std::make_shared<ObjectData>();
  google::protobuf::Message& object = *taken;
  if (auto* secret = dynamic_cast<corev1::Secret*>(&object)) {
    data->uid = secret->metadata().uid();
    data->version = secret->metadata().resourceversion();
    data->immutable = secret->immutable();
    TakeValues(*secret->mutable_data(), data->values);
  } else if (auto* map = dynamic_cast<corev1::ConfigMap*>(&object)) {
    data->uid = map->metadata().uid();
    data->version = map->metadata().resourceversion();
    data->immutable = map->immutable();
    for (const auto& [key, value] : map->binarydata()) data->binary.insert(key);
    TakeValues(*map->mutable_binarydata(), data->values);
    TakeValues(*map->mutable_data(), data->values);
  } else {
    data->version = MarkOf(object).version;
    data->settled = IsSettled(object);
    data->object = std::move(taken);
  }
  return data;
}

Result<std::shared_ptr<const ObjectData>> ReadObject(const ObjectRef& ref, ApiReply& reply) {
  auto object = DecodeObject(reply.body, TypeOf(ref));
  Wipe(reply.body);
  if (!object)
    return std::move(object.error()).Wrap(StrCat("get ", Collection(ref), "/", ref.name));
  return TakeData(std::move(*object));
}

TokenOwner TokenOwnerOf(const corev1::Pod& pod) {
  const auto& meta = pod.metadata();
  return {meta.namespace_(), pod.spec().serviceaccountname(), meta.name(), PodUid(meta.uid())};
}

ApiCall TokenCall(const TokenOwner& owner, const TokenRef& ref, const std::string& account_uid) {
  authenticationv1::TokenRequest request;
  if (!account_uid.empty()) request.mutable_metadata()->set_uid(account_uid);
  auto& spec = *request.mutable_spec();
  // The server's own audience must not be written out.
  if (!ref.audience.empty()) spec.add_audiences(ref.audience);
  spec.set_expirationseconds(ref.life.count());
  auto& bound = *spec.mutable_boundobjectref();
  bound.set_kind("Pod");
  bound.set_apiversion("v1");
  bound.set_name(owner.pod_name);
  bound.set_uid(owner.pod_uid.value);
  ApiCall call = PostOf(StrCat("/api/v1/namespaces/", owner.object_namespace, "/serviceaccounts/",
                               owner.service_account, "/token"),
                        request);
  call.lane = ApiLane::kPods;
  call.repeatable = true;  // one token more harms nobody
  return call;
}

Result<IssuedToken> ReadToken(ApiReply& reply) {
  auto object = DecodeObject(reply.body, {"authentication.k8s.io/v1", "TokenRequest"});
  Wipe(reply.body);
  if (!object) return std::move(object.error());
  auto& status = *dynamic_cast<authenticationv1::TokenRequest&>(**object).mutable_status();
  if (status.token().empty()) return InvalidArgument("the answer has no token");
  IssuedToken out;
  out.text = std::shared_ptr<const std::string>(new std::string(std::move(*status.mutable_token())),
                                                [](const std::string* text) {
                                                  auto* own = const_cast<std::string*>(text);
                                                  Wipe(*own);
                                                  delete own;
                                                });
  out.expires = kube::ToWallTime(status.expirationtimestamp());
  if (out.expires.IsZero()) return InvalidArgument("the answer has no expirationTimestamp");
  return out;
}

// Of the authorizer, whose graph lags, and of the admission of tokens, whose cache of pods does:
// that has the pod not yet, or without its node. (Where the storage has none it says `pods "x"`.)
bool IsTooEarly(const ApiReply& reply) {
  const auto says = [&](const char* words) {
    return reply.message.find(words) != std::string::npos;
  };
  if (reply.code == 404) return reply.message.starts_with("pod \"");
  return reply.code == 403 && (says("no relationship found") ||
                               says("token bound to a pod scheduled on a different node"));
}

std::chrono::milliseconds DelayWhenTooEarly(unsigned tries) {
  return std::chrono::milliseconds(std::min(2u << std::min(tries, 10u), 100u));
}

std::string WhyOf(const ObjectRef& ref, const ApiReply& reply) {
  if (reply.code == 404) return NotFoundText(ref);
  return Said(reply);
}

std::string WhyOf(const ObjectRef& ref, const Error& error) {
  if (ref.kind == ObjectKind::kSecret) return "failed to sync secret cache: " + error.message();
  if (ref.kind != ObjectKind::kConfigMap) return error.message();
  return "failed to sync configmap cache: " + error.message();
}

std::string TokenWhyOf(const ApiReply& reply) {
  return StrCat("failed to fetch token: ", Said(reply));
}

std::string TokenWhyOf(const Error& error) {
  return StrCat("failed to fetch token: ", error.message());
}

}  // namespace holdfast::agent
