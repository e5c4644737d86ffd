// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/kept_inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "agent/objects/object_kinds.h"
#include "agent/objects/object_requests.h"
#include "agent/objects/references.h"
#include "holdfast/base/base64.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr int kKeptInputsVersion = 1;

Json ToJson(const ObjectRef& ref) {
  return {{"kind", RowOf(ref.kind).name}, {"namespace", ref.object_namespace}, {"name", ref.name}};
}

// A former version told Secrets from ConfigMaps only.
std::optional<ObjectKind> KindFrom(const Json& json) {
  if (!json.contains("kind")) {
    return json.at("secret").get<bool>() ? ObjectKind::kSecret : ObjectKind::kConfigMap;
  }
  const auto found =
      std::ranges::find(ObjectKinds(), json.at("kind").get<std::string>(), &ObjectKindRow::name);
  return found == ObjectKinds().end() ? std::nullopt : std::optional(found->kind);
}

std::optional<ObjectRef> RefFrom(const Json& json) {
  const auto kind = KindFrom(json);
  if (!kind) return std::nullopt;
  return ObjectRef{*kind, json.at("namespace"), json.at("name")};
}

// Values are any bytes.
Json ToJson(const ObjectRef& ref, const ObjectData& data) {
  Json json = ToJson(ref);
  Json values = Json::object();
  for (const auto& [key, value] : data.values) values[key] = EncodeBase64(value);
  json["values"] = std::move(values);
  json["binary"] = data.binary;
  if (data.object) json["object"] = EncodeBase64(kube::EncodeEnvelope(*data.object));
  json["uid"] = data.uid;
  return json;
}

// Null for bytes that are none.
std::shared_ptr<const ObjectData> DataFrom(const ObjectRef& ref, const Json& json) {
  auto data = std::make_shared<ObjectData>();
  if (const auto text = json.find("object"); text != json.end()) {
    const auto bytes = DecodeBase64(text->get<std::string>());
    if (!bytes) return nullptr;
    auto object = DecodeObject(*bytes, TypeOf(ref));
    return object ? TakeData(std::move(*object)) : nullptr;
  }
  for (const auto& [key, text] : json.at("values").items()) {
    auto value = DecodeBase64(text.get<std::string>());
    if (!value) return nullptr;
    data->values[key] = std::move(*value);
  }
  data->binary = json.at("binary").get<std::set<std::string>>();
  data->uid = json.value("uid", "");
  return data;
}

bool ReadObjects(const Json& json, KeptInputs& kept) {
  for (const Json& one : json.at("objects")) {
    const auto ref = RefFrom(one);
    auto data = ref ? DataFrom(*ref, one) : nullptr;
    if (data == nullptr) return false;
    kept.objects[*ref] = std::move(data);
  }
  for (const Json& one : json.at("absent")) {
    const auto ref = RefFrom(one);
    if (!ref) return false;
    kept.absent.insert(*ref);
  }
  return true;
}

}  // namespace

std::optional<KeptInputs> CollectInputs(const corev1::Pod& pod, const PodInputs& inputs,
                                        bool with_secrets) {
  const PodUid uid(pod.metadata().uid());
  KeptInputs kept;
  for (const auto& [ref, use] : ReferencesOf(pod, inputs).objects) {
    if (ref.kind == ObjectKind::kSecret && !with_secrets) continue;
    ObjectInput input = inputs.Object(uid, ref);
    if (input.kept) return std::nullopt;
    if (input.state == InputState::kPresent) {
      kept.objects[ref] = std::move(input.data);
    } else if (input.state == InputState::kAbsent) {
      kept.absent.insert(ref);
    } else {
      return std::nullopt;
    }
  }
  const auto& spec = pod.spec();
  const bool links = !spec.has_enableservicelinks() || spec.enableservicelinks();
  kept.variables = inputs.ServiceVariables(uid, pod.metadata().namespace_(), links);
  return kept;
}

std::string EncodeKept(const KeptInputs& kept) {
  Json json = {
      {"version", kKeptInputsVersion}, {"objects", Json::array()}, {"absent", Json::array()}};
  for (const auto& [ref, data] : kept.objects) json["objects"].push_back(ToJson(ref, *data));
  for (const ObjectRef& ref : kept.absent) json["absent"].push_back(ToJson(ref));
  if (kept.variables) json["variables"] = *kept.variables;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<KeptInputs> DecodeKept(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    KeptInputs kept;
    if (json.at("version") != kKeptInputsVersion || !ReadObjects(json, kept)) {
      return InvalidArgument("kept inputs: damaged, or of a later version");
    }
    if (const auto variables = json.find("variables"); variables != json.end()) {
      kept.variables = variables->get<std::vector<std::string>>();
    }
    return kept;
  } catch (const Json::exception& error) {
    return InvalidArgument(std::string("kept inputs: ") + error.what());
  }
}

}  // namespace holdfast::agent
