// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/config_object.h"

#include <string.h>

#include <map>
#include <utility>

#include "agent/kube/annotations.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/message_bytes.h"
#include "agent/kube/pod_identity.h"
#include "agent/objects/object_kinds.h"
#include "agent/objects/object_requests.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/config.pb.h"

namespace holdfast::agent {
namespace {

using kube::FieldError;

constexpr char kSealed[] = "field is immutable when `immutable` is set";

// What an API server would set is left out of what a file says of it.
void ClearSystemFields(metav1::ObjectMeta& meta) {
  meta.clear_uid();
  meta.clear_resourceversion();
  meta.clear_generation();
  meta.clear_selflink();
  meta.clear_creationtimestamp();
  meta.clear_deletiontimestamp();
  meta.clear_deletiongraceperiodseconds();
  meta.clear_managedfields();
}

std::shared_ptr<const metav1::ObjectMeta> ShownMetadata(const ObjectRef& ref,
                                                        const metav1::ObjectMeta& meta) {
  auto shown = std::make_shared<metav1::ObjectMeta>(meta);
  // Names hold no "/".
  shown->set_uid(
      kube::HashFnv128a(StrCat(RowOf(ref.kind).name, "/", ref.object_namespace, "/", ref.name)));
  if (ref.kind == ObjectKind::kSecret) {
    shown->mutable_annotations()->erase(kube::kLastAppliedConfiguration);
  }
  return shown;
}

template <class Object>
ConfigObjectPtr TakeAs(ObjectKind kind, std::unique_ptr<Object> object) {
  auto taken = std::make_shared<ConfigObject>();
  metav1::ObjectMeta& meta = *object->mutable_metadata();
  taken->ref = {kind, meta.namespace_(), meta.name()};
  ClearSystemFields(meta);
  taken->metadata = ShownMetadata(taken->ref, meta);
  if constexpr (requires { object->type(); }) taken->type = object->type();
  taken->data = TakeData(std::shared_ptr<google::protobuf::Message>(std::move(object)));
  return taken;
}

// Of a ConfigMap: those of `binaryData`, or the others.
std::map<std::string_view, std::string_view> SortedValues(const ObjectData& data, bool binary) {
  std::map<std::string_view, std::string_view> values;
  for (const auto& [key, value] : data.values) {
    if (data.binary.contains(key) == binary) values.emplace(key, value);
  }
  return values;
}

}  // namespace

void TakeStringData(corev1::Secret* secret) {
  for (auto& [key, value] : *secret->mutable_stringdata()) {
    (*secret->mutable_data())[key] = value;
    ::explicit_bzero(value.data(), value.size());
  }
  secret->clear_stringdata();
}

ConfigObjectPtr TakeConfigObject(std::unique_ptr<corev1::ConfigMap> map) {
  return TakeAs(ObjectKind::kConfigMap, std::move(map));
}

ConfigObjectPtr TakeConfigObject(std::unique_ptr<corev1::Secret> secret) {
  return TakeAs(ObjectKind::kSecret, std::move(secret));
}

bool HasSameContent(const ConfigObject& a, const ConfigObject& b) {
  return a.ref == b.ref && a.type == b.type && a.data->immutable == b.data->immutable &&
         a.data->binary == b.data->binary && a.data->values == b.data->values;
}

bool HasSameMetadata(const ConfigObject& a, const ConfigObject& b) {
  return kube::SameMessage(*a.metadata, *b.metadata);
}

kube::FieldErrors CheckUpdate(const ConfigObject& before, const ConfigObject& now) {
  kube::FieldErrors errors;
  if (before.type != now.type) {
    errors.push_back(
        {FieldError::Type::kInvalid, "type", kube::Quoted(now.type, 300), "field is immutable"});
  }
  if (!before.data->immutable) return errors;
  if (!now.data->immutable) {
    errors.push_back({FieldError::Type::kForbidden, "immutable", "", kSealed});
  }
  for (const bool binary : {false, true}) {
    if (SortedValues(*before.data, binary) == SortedValues(*now.data, binary)) continue;
    errors.push_back({FieldError::Type::kForbidden, binary ? "binaryData" : "data", "", kSealed});
  }
  return errors;
}

}  // namespace holdfast::agent
