// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <utility>

#include "agent/kube/codec.h"
#include "agent/kube/message_bytes.h"
#include "agent/kube/print.h"
#include "agent/kube/schema.h"
#include "agent/kube/special.h"
#include "agent/kube/utf8.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"
#include "k8s/runtime/runtime.pb.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kMagic{"k8s\0", 4};

Node WriteMessage(const Message& message);

Node WriteText(const FieldDescriptor& field, const std::string& text) {
  return Node::String(field.type() == FieldDescriptor::TYPE_BYTES ? EncodeBase64(text)
                                                                  : ReplaceInvalidUtf8(text));
}

// One value: of a singular field, or the one at `index` of a repeated field.
Node WriteValue(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return WriteText(*field, repeated ? reflection.GetRepeatedString(message, field, index)
                                        : reflection.GetString(message, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Node::Bool(repeated ? reflection.GetRepeatedBool(message, field, index)
                                 : reflection.GetBool(message, field));
    case FieldDescriptor::CPPTYPE_INT32:
      return Node::Int(repeated ? reflection.GetRepeatedInt32(message, field, index)
                                : reflection.GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return Node::Int(repeated ? reflection.GetRepeatedInt64(message, field, index)
                                : reflection.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteMessage(repeated ? reflection.GetRepeatedMessage(message, field, index)
                                   : reflection.GetMessage(message, field));
    default:
      return {};  // no such field in Kubernetes' types
  }
}

bool IsZero(const Node& node) {
  return node.kind == Node::Kind::kNull ||
         (node.kind == Node::Kind::kBool && node.text == "false") ||
         (node.kind == Node::Kind::kInt && node.text == "0") ||
         (node.kind == Node::Kind::kString && node.text.empty());
}

Node WriteMap(const Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  // By their own bytes, as Go does: what is no UTF-8 looks alike once it is replaced.
  std::map<std::string, Node> sorted;
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    sorted.insert_or_assign(entry.GetReflection()->GetString(entry, key),
                            WriteValue(entry, value, 0));
  }
  Node map = Node::Map();
  for (auto& [name, node] : sorted) map.Add(ReplaceInvalidUtf8(name), std::move(node));
  return map;
}

Node WriteList(const Message& message, const FieldDescriptor* field) {
  Node list = Node::List();
  const int size = message.GetReflection()->FieldSize(message, field);
  for (int i = 0; i < size; ++i) list.items.push_back(WriteValue(message, field, i));
  return list;
}

void WriteFields(const Message& message, Node* out);

void WriteField(const Message& message, const FieldSchema& schema, Node* out) {
  const FieldDescriptor* field = schema.field;
  const Reflection& reflection = *message.GetReflection();
  if (schema.inlined) return WriteFields(reflection.GetMessage(message, field), out);
  if (field->is_repeated()) {
    const bool empty = reflection.FieldSize(message, field) == 0;
    if (empty && !schema.always) return;
    out->Add(schema.json_name, empty             ? Node{}
                               : field->is_map() ? WriteMap(message, field)
                                                 : WriteList(message, field));
    return;
  }
  if (schema.pointer && !reflection.HasField(message, field)) return;
  Node value = WriteValue(message, field, 0);
  const bool scalar = field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
  const bool may_omit = (scalar && !schema.pointer && !schema.always) || schema.omit_zero;
  if (may_omit && IsZero(value)) return;
  out->Add(schema.json_name, std::move(value));
}

void WriteFields(const Message& message, Node* out) {
  for (const FieldSchema& field : SchemaOf(message.GetDescriptor()).fields) {
    WriteField(message, field, out);
  }
}

Node WriteMessage(const Message& message) {
  const SpecialType special = SchemaOf(message.GetDescriptor()).special;
  if (special != SpecialType::kNone) return WriteSpecial(special, message);
  Node map = Node::Map();
  WriteFields(message, &map);
  return map;
}

// A watch event does not say what it is.
TypeMeta WrittenType(const Message& object) {
  TypeMeta type = TypeMetaOf(object);
  return type.kind == "WatchEvent" ? TypeMeta{} : type;
}

Node ListTree(const std::vector<const Message*>& objects) {
  Node list = Node::Map();
  list.Add("apiVersion", Node::String("v1"));
  Node& items = list.Add("items", Node::List());
  for (const Message* object : objects) items.items.push_back(ToTree(*object));
  list.Add("kind", Node::String("List"));
  list.Add("metadata", Node::Map()).Add("resourceVersion", Node::String(""));
  return list;
}

}  // namespace

std::string EncodeEnvelope(const Message& object) {
  ::k8s::io::apimachinery::pkg::runtime::Unknown envelope;
  const TypeMeta type = WrittenType(object);
  envelope.mutable_typemeta()->set_apiversion(type.api_version);
  envelope.mutable_typemeta()->set_kind(type.kind);
  envelope.set_raw(BytesOf(object));
  envelope.set_contentencoding("");
  envelope.set_contenttype("");
  return std::string(kMagic) + envelope.SerializeAsString();
}

Result<ObjectPtr> DecodeEnvelope(std::string_view bytes, const TypeMeta& expected) {
  if (!bytes.starts_with(kMagic)) return InvalidArgument("decode protobuf: no k8s envelope");
  const google::protobuf::LogSilencer silencer;  // it would write to stderr what is not UTF-8
  bytes.remove_prefix(kMagic.size());
  ::k8s::io::apimachinery::pkg::runtime::Unknown envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidArgument("decode protobuf: the envelope does not parse");
  }
  TypeMeta type{envelope.typemeta().apiversion(), envelope.typemeta().kind()};
  if (type.kind.empty()) type = expected;
  ObjectPtr object = NewObject(type);
  if (object == nullptr) {
    return Unsupported(StrCat("decode protobuf: kind ", Quoted(type.kind), " of ",
                              Quoted(type.api_version), " is not known"));
  }
  if (!object->ParsePartialFromString(envelope.raw())) {
    return InvalidArgument(StrCat("decode protobuf: the ", type.kind, " does not parse"));
  }
  return object;
}

Node ToTree(const Message& object) {
  const TypeMeta type = WrittenType(object);
  Node tree = WriteMessage(object);
  if (type.kind.empty() || tree.kind != Node::Kind::kMap) return tree;
  tree.members.insert(tree.members.begin(),
                      {Member{"kind", {}, Node::String(type.kind)},
                       Member{"apiVersion", {}, Node::String(type.api_version)}});
  return tree;
}

std::string EncodeJson(const Message& object) { return CompactJson(ToTree(object)); }
std::string PrintJson(const Message& object) { return SortedJson(ToTree(object)); }
std::string PrintYaml(const Message& object) { return SortedYaml(ToTree(object)); }

std::string PrintJsonList(const std::vector<const Message*>& objects) {
  return SortedJson(ListTree(objects));
}

std::string PrintYamlList(const std::vector<const Message*>& objects) {
  return SortedYaml(ListTree(objects));
}

}  // namespace holdfast::agent::kube
