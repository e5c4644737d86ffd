// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/schema.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "k8s/options.pb.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

SpecialType SpecialTypeOf(const Descriptor& descriptor) {
  static const std::unordered_map<std::string_view, SpecialType> kSpecial = {
      {"k8s.io.apimachinery.pkg.api.resource.Quantity", SpecialType::kQuantity},
      {"k8s.io.apimachinery.pkg.util.intstr.IntOrString", SpecialType::kIntOrString},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.Time", SpecialType::kTime},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", SpecialType::kMicroTime},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.Duration", SpecialType::kDuration},
      {"k8s.io.apimachinery.pkg.runtime.RawExtension", SpecialType::kRawExtension},
      {"k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", SpecialType::kFieldsV1},
      {"k8s.io.api.authentication.v1.ExtraValue", SpecialType::kStringList},
      {"k8s.io.api.authorization.v1.ExtraValue", SpecialType::kStringList},
      {"k8s.io.api.certificates.v1.ExtraValue", SpecialType::kStringList},
  };
  const auto it = kSpecial.find(descriptor.full_name());
  return it == kSpecial.end() ? SpecialType::kNone : it->second;
}

FieldSchema MakeField(const FieldDescriptor* field) {
  const auto& options = field->options();
  FieldSchema out;
  out.field = field;
  out.json_name =
      options.HasExtension(::k8s::json) ? options.GetExtension(::k8s::json) : field->name();
  out.pointer = options.GetExtension(::k8s::pointer);
  out.always = options.GetExtension(::k8s::always);
  out.inlined = options.GetExtension(::k8s::inlined);
  out.omit_zero = options.GetExtension(::k8s::omit_zero);
  return out;
}

std::unique_ptr<MessageSchema> Build(const Descriptor* descriptor) {
  auto schema = std::make_unique<MessageSchema>();
  schema->special = SpecialTypeOf(*descriptor);
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldSchema& field = schema->fields.emplace_back(MakeField(descriptor->field(i)));
    if (!field.inlined) {
      schema->by_name[field.json_name] = {field.field};
      continue;
    }
    for (const auto& [name, path] : SchemaOf(field.field->message_type()).by_name) {
      std::vector<const FieldDescriptor*> longer = {field.field};
      longer.insert(longer.end(), path.begin(), path.end());
      schema->by_name[name] = std::move(longer);
    }
  }
  return schema;
}

}  // namespace

const MessageSchema& SchemaOf(const Descriptor* descriptor) {
  // Never destroyed: other threads may still use it while the process ends.
  static auto& lock = *new std::recursive_mutex;
  static auto& known =
      *new std::unordered_map<const Descriptor*, std::unique_ptr<const MessageSchema>>;
  const std::lock_guard guard(lock);
  auto it = known.find(descriptor);
  if (it == known.end()) {
    auto built = Build(descriptor);
    it = known.emplace(descriptor, std::move(built)).first;
  }
  return *it->second;
}

}  // namespace holdfast::agent::kube
