// SPDX-License-Identifier: Apache-2.0
// ConfigMaps, and Secrets without their values: reads of what the manifest directory has.
#include "agent/api/grpc/in_namespace.h"
#include "agent/api/grpc/service.h"
#include "agent/kube/label_selector.h"
#include "agent/kube/times.h"
#include "agent/objects/config_object.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/config.pb.h"

namespace holdfast::agent::api {
namespace {

// Of one answer. What is more would not fit into a message (server.cc), and is not copied in vain.
constexpr size_t kMostValues = size_t{60} << 20;

// Those that a request of either list selects.
template <class Request>
Result<std::vector<ConfigObjectPtr>> SelectConfigs(NodeOperations& node, ObjectKind kind,
                                                   const Request& request) {
  ASSIGN_OR_RETURN(const kube::LabelSelector selector,
                   kube::LabelSelector::Parse(request.label_selector()));
  ASSIGN_OR_RETURN(std::vector<ConfigObjectPtr> objects, node.ConfigObjects(kind));
  std::erase_if(objects, [&](const ConfigObjectPtr& object) {
    return !InNamespace(request.namespace_(), object->ref.object_namespace) ||
           !selector.Matches(object->metadata->labels());
  });
  return objects;
}

void FillMetadata(const ConfigObject& object, metav1::ObjectMeta& meta) {
  meta = *object.metadata;
  kube::SetTime(object.created, meta.mutable_creationtimestamp());
}

void FillConfigMap(const ConfigObject& object, corev1::ConfigMap& map) {
  FillMetadata(object, *map.mutable_metadata());
  if (object.data->immutable) map.set_immutable(true);
  for (const auto& [key, value] : object.data->values) {
    const bool binary = object.data->binary.contains(key);
    (*(binary ? map.mutable_binarydata() : map.mutable_data()))[key] = value;
  }
}

void FillSecret(const ConfigObject& object, v1::ListSecretsResponse::Secret& secret) {
  FillMetadata(object, *secret.mutable_metadata());
  secret.set_type(object.type);
  secret.set_immutable(object.data->immutable);
  for (const auto& [key, value] : object.data->values) {
    (*secret.mutable_data_bytes())[key] = value.size();
  }
}

size_t BytesOf(const ConfigObject& object) {
  size_t bytes = 0;
  for (const auto& [key, value] : object.data->values) bytes += key.size() + value.size();
  return bytes;
}

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::ListConfigMaps(grpc::CallbackServerContext* context,
                                                           const v1::ListConfigMapsRequest* request,
                                                           v1::ListConfigMapsResponse* response) {
  return Answer(context, Method::kListConfigMaps, *response, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const std::vector<ConfigObjectPtr> objects,
                     SelectConfigs(core_.node, ObjectKind::kConfigMap, *request));
    size_t bytes = 0;
    for (const ConfigObjectPtr& object : objects) bytes += BytesOf(*object);
    if (bytes > kMostValues) {
      return Error(Code::kResourceExhausted,
                   StrCat(objects.size(), " configmaps with more than ", kMostValues >> 20,
                          " MiB of values: choose a namespace or labels"));
    }
    for (const ConfigObjectPtr& object : objects) {
      FillConfigMap(*object, *response->add_config_maps());
    }
    return {};
  });
}

grpc::ServerUnaryReactor* NodeAgentService::ListSecrets(grpc::CallbackServerContext* context,
                                                        const v1::ListSecretsRequest* request,
                                                        v1::ListSecretsResponse* response) {
  return Answer(context, Method::kListSecrets, *response, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const std::vector<ConfigObjectPtr> objects,
                     SelectConfigs(core_.node, ObjectKind::kSecret, *request));
    for (const ConfigObjectPtr& object : objects) FillSecret(*object, *response->add_secrets());
    return {};
  });
}

}  // namespace holdfast::agent::api
