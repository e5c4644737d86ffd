// SPDX-License-Identifier: Apache-2.0
// MessageSchema: what the codec knows of a message type, read from its descriptor and our field
// options once and kept. Internal to agent/kube. Thread-safe.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::kube {

// Types whose JSON form is not that of their fields.
enum class SpecialType : uint8_t {
  kNone,
  kQuantity,
  kIntOrString,
  kTime,
  kMicroTime,
  kDuration,
  kRawExtension,
  kFieldsV1,
  kStringList,  // its one field, a list of strings
};

struct FieldSchema {
  const google::protobuf::FieldDescriptor* field = nullptr;
  std::string json_name;
  bool pointer = false;    // absent is "not set", zero is a value
  bool always = false;     // written even when zero
  bool inlined = false;    // its fields stand among ours
  bool omit_zero = false;  // left out when zero though no pointer
};

struct MessageSchema {
  SpecialType special = SpecialType::kNone;
  std::vector<FieldSchema> fields;  // in the order in which Kubernetes writes them
  // By JSON name: the inlined messages to go through, then the field itself.
  std::map<std::string, std::vector<const google::protobuf::FieldDescriptor*>, std::less<>> by_name;
};

// Never fails; the result lives for ever.
const MessageSchema& SchemaOf(const google::protobuf::Descriptor* descriptor);

}  // namespace holdfast::agent::kube
