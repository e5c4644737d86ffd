// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/kept_inputs.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "agent/kube/base64.h"
#include "agent/objects/references.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

Json ToJson(const ObjectRef& ref) {
  return {{"secret", ref.secret}, {"namespace", ref.object_namespace}, {"name", ref.name}};
}

ObjectRef RefFrom(const Json& json) {
  return {json.at("secret"), json.at("namespace"), json.at("name")};
}

// Values are any bytes.
Json ToJson(const ObjectRef& ref, const ObjectData& data) {
  Json json = ToJson(ref);
  Json values = Json::object();
  for (const auto& [key, value] : data.values) values[key] = kube::EncodeBase64(value);
  json["values"] = std::move(values);
  json["binary"] = data.binary;
  json["uid"] = data.uid;
  return json;
}

// Null for bytes that are none.
std::shared_ptr<const ObjectData> DataFrom(const Json& json) {
  auto data = std::make_shared<ObjectData>();
  for (const auto& [key, text] : json.at("values").items()) {
    auto value = kube::DecodeBase64(text.get<std::string>());
    if (!value) return nullptr;
    data->values[key] = std::move(*value);
  }
  data->binary = json.at("binary").get<std::set<std::string>>();
  data->uid = json.value("uid", "");
  return data;
}

bool ReadObjects(const Json& json, KeptInputs& kept) {
  for (const Json& one : json.at("objects")) {
    auto data = DataFrom(one);
    if (data == nullptr) return false;
    kept.objects[RefFrom(one)] = std::move(data);
  }
  for (const Json& one : json.at("absent")) kept.absent.insert(RefFrom(one));
  return true;
}

}  // namespace

std::optional<KeptInputs> CollectInputs(const corev1::Pod& pod, const PodInputs& inputs,
                                        bool with_secrets) {
  const PodUid uid(pod.metadata().uid());
  KeptInputs kept;
  for (const auto& [ref, use] : ReferencesOf(pod).objects) {
    if (ref.secret && !with_secrets) continue;
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
  kept.variables = inputs.ServiceVariables(pod.metadata().namespace_(), links);
  return kept;
}

std::string EncodeKept(const KeptInputs& kept) {
  Json json = {{"version", kVersion}, {"objects", Json::array()}, {"absent", Json::array()}};
  for (const auto& [ref, data] : kept.objects) json["objects"].push_back(ToJson(ref, *data));
  for (const ObjectRef& ref : kept.absent) json["absent"].push_back(ToJson(ref));
  if (kept.variables) json["variables"] = *kept.variables;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<KeptInputs> DecodeKept(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    KeptInputs kept;
    if (json.at("version") != kVersion || !ReadObjects(json, kept)) {
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
