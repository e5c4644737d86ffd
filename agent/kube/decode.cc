// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <charconv>
#include <utility>

#include "agent/kube/codec.h"
#include "agent/kube/parse.h"
#include "agent/kube/schema.h"
#include "agent/kube/special.h"
#include "agent/kube/suggest.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string_view TypeName(FieldDescriptor::CppType type) {
  switch (type) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "a string";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "a boolean";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "a map";
    default:
      return "a whole number";
  }
}

class Decoder {
 public:
  Decoder(const DecodeOptions& options, std::vector<Diagnostic>* diagnostics)
      : options_(options), path_(options.path), diagnostics_(*diagnostics) {}

  void ReadMessage(const Node& node, Message* message) {
    const MessageSchema& schema = SchemaOf(message->GetDescriptor());
    if (schema.special != SpecialType::kNone) {
      if (std::string wrong = ReadSpecial(schema.special, node, message); !wrong.empty()) {
        Report(node.at, std::move(wrong));
      }
      return;
    }
    if (node.kind == Node::Kind::kNull) return;
    if (node.kind != Node::Kind::kMap) return ReportType(node, "a map");
    const bool object = !TypeMetaOf(*message).kind.empty();
    for (const Member& member : node.members) {
      const size_t length = Enter(member.key);
      if (const auto it = schema.by_name.find(member.key); it != schema.by_name.end()) {
        ReadField(member.value, it->second, message);
      } else if (object && (member.key == "kind" || member.key == "apiVersion")) {
        if (member.value.kind != Node::Kind::kString) ReportType(member.value, "a string");
      } else if (options_.strict) {
        ReportUnknown(member, schema);
      }
      path_.resize(length);
    }
  }

 private:
  size_t Enter(std::string_view key) {
    const size_t length = path_.size();
    if (!path_.empty()) path_ += '.';
    path_ += key;
    return length;
  }

  void Report(Position at, std::string message) {
    diagnostics_.push_back({options_.file, at, path_, std::move(message)});
  }

  void ReportType(const Node& node, std::string_view expected) {
    const bool quotes = expected == "a string" && node.kind != Node::Kind::kList &&
                        node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull;
    Report(node.at, StrCat("expected ", expected, ", got ", KindName(node.kind),
                           quotes ? " (put it in quotes)" : ""));
  }

  void ReportUnknown(const Member& member, const MessageSchema& schema) {
    std::vector<std::string_view> names;
    for (const auto& [name, path] : schema.by_name) names.push_back(name);
    Report(member.at, "unknown field" + DidYouMean(member.key, names));
  }

  // `path` leads through the inlined messages.
  void ReadField(const Node& node, const std::vector<const FieldDescriptor*>& path,
                 Message* message) {
    if (node.kind == Node::Kind::kNull) return;
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      message = message->GetReflection()->MutableMessage(message, path[i]);
    }
    const FieldDescriptor* field = path.back();
    if (field->is_map()) return ReadMap(node, field, message);
    if (field->is_repeated()) return ReadList(node, field, message);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadMessage(node, message->GetReflection()->MutableMessage(message, field));
    }
    ReadScalar(node, field, message, false);
  }

  void ReadList(const Node& node, const FieldDescriptor* field, Message* message) {
    if (node.kind != Node::Kind::kList) return ReportType(node, "a list");
    for (size_t i = 0; i < node.items.size(); ++i) {
      const size_t length = path_.size();
      path_ += StrCat("[", i, "]");
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        ReadMessage(node.items[i], message->GetReflection()->AddMessage(message, field));
      } else {
        ReadScalar(node.items[i], field, message, true);
      }
      path_.resize(length);
    }
  }

  void ReadMap(const Node& node, const FieldDescriptor* field, Message* message) {
    if (node.kind != Node::Kind::kMap) return ReportType(node, "a map");
    const FieldDescriptor* key = field->message_type()->map_key();
    const FieldDescriptor* value = field->message_type()->map_value();
    for (const Member& member : node.members) {
      const size_t length = path_.size();
      path_ += StrCat("[", member.key, "]");
      Message* entry = message->GetReflection()->AddMessage(message, field);
      entry->GetReflection()->SetString(entry, key, member.key);
      if (value->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        ReadMessage(member.value, entry->GetReflection()->MutableMessage(entry, value));
      } else {
        ReadScalar(member.value, value, entry, false);
      }
      path_.resize(length);
    }
  }

  // Sets the field, or adds to it when it is a list. A null in a list is the zero value.
  void ReadScalar(const Node& node, const FieldDescriptor* field, Message* message, bool add) {
    const bool null = node.kind == Node::Kind::kNull;
    const Reflection& reflection = *message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text;
        if (!null && !ReadText(node, *field, &text)) return;
        return add ? reflection.AddString(message, field, std::move(text))
                   : reflection.SetString(message, field, std::move(text));
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!null && node.kind != Node::Kind::kBool) return ReportType(node, "a boolean");
        return add ? reflection.AddBool(message, field, node.text == "true")
                   : reflection.SetBool(message, field, node.text == "true");
      case FieldDescriptor::CPPTYPE_INT32: {
        int32_t value = 0;
        if (!null && !ReadInt(node, 32, &value)) return;
        return add ? reflection.AddInt32(message, field, value)
                   : reflection.SetInt32(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        int64_t value = 0;
        if (!null && !ReadInt(node, 64, &value)) return;
        return add ? reflection.AddInt64(message, field, value)
                   : reflection.SetInt64(message, field, value);
      }
      default:
        ReportType(node, TypeName(field->cpp_type()));  // no such field in Kubernetes' types
    }
  }

  bool ReadText(const Node& node, const FieldDescriptor& field, std::string* text) {
    if (node.kind != Node::Kind::kString) return ReportType(node, "a string"), false;
    *text = node.text;
    if (field.type() != FieldDescriptor::TYPE_BYTES) return true;
    auto bytes = DecodeBase64(node.text);
    if (!bytes) return Report(node.at, "not valid base64"), false;
    *text = std::move(*bytes);
    return true;
  }

  template <class T>
  bool ReadInt(const Node& node, int bits, T* value) {
    if (node.kind == Node::Kind::kFloat) {
      return Report(node.at, StrCat("expected a whole number, got ", node.text.substr(0, 40))),
             false;
    }
    if (node.kind != Node::Kind::kInt) return ReportType(node, "a whole number"), false;
    const char* end = node.text.data() + node.text.size();
    if (std::from_chars(node.text.data(), end, *value).ec == std::errc()) return true;
    Report(node.at, StrCat(node.text.substr(0, 40), " does not fit ", bits, " bits"));
    return false;
  }

  const DecodeOptions& options_;
  std::string path_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace

void FromTree(const Node& tree, const DecodeOptions& options, Message* object,
              std::vector<Diagnostic>* diagnostics) {
  Decoder(options, diagnostics).ReadMessage(tree, object);
}

Result<ObjectPtr> DecodeJson(std::string_view text, const TypeMeta& expected) {
  constexpr ParseLimits kLimits = {.max_bytes = 64u << 20,
                                   .max_document_bytes = 64u << 20,
                                   .max_documents = 1,
                                   .max_values = 5'000'000};
  ParsedText parsed{{}, CheckText(text, kLimits)};
  if (parsed.errors.empty()) parsed = ParseJson(text, kLimits);
  if (!parsed.errors.empty() || parsed.documents.empty()) {
    const ParseError error =
        parsed.errors.empty() ? ParseError{{1, 1}, "", "empty"} : parsed.errors.front();
    return InvalidArgument(Diagnostic{"json", error.at, error.path, error.message}.ToString());
  }
  const Node& tree = parsed.documents.front();
  const Node* kind = tree.Find("kind");
  const Node* api_version = tree.Find("apiVersion");
  TypeMeta type{api_version == nullptr ? "" : api_version->text, kind == nullptr ? "" : kind->text};
  if (type.kind.empty()) type = expected;
  ObjectPtr object = NewObject(type);
  if (object == nullptr) {
    return Unsupported(StrCat("decode json: kind ", Quoted(type.kind), " of ",
                              Quoted(type.api_version), " is not known"));
  }
  std::vector<Diagnostic> diagnostics;
  FromTree(tree, {.strict = false, .file = "json", .path = ""}, object.get(), &diagnostics);
  if (!diagnostics.empty()) return InvalidArgument(ToString(diagnostics));
  return object;
}

}  // namespace holdfast::agent::kube
