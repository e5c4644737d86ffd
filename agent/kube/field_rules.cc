// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/field_rules.h"

#include <google/protobuf/descriptor.h>

#include "agent/kube/schema.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool Holds(std::string_view words, std::string_view word) {
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) {
      return true;
    }
  }
  return false;
}

// An empty text asks for nothing either, nor does a false that an API server writes where nothing stood.
bool IsHarmless(const Message& parent, const FieldDescriptor& field, std::string_view harmless) {
  if (field.is_repeated()) return false;
  const Reflection& reflection = *parent.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return !reflection.GetBool(parent, &field) || harmless == "true";
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
  const std::string value = reflection.GetString(parent, &field);
  return value.empty() || value == harmless;
}

// "[web]" for a list element with a name, "[2]" for one without.
std::string ElementOf(const Message& element, int index) {
  const FieldDescriptor* name = element.GetDescriptor()->FindFieldByName("name");
  if (name == nullptr || name->is_repeated() ||
      name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return StrCat("[", index, "]");
  }
  return StrCat("[", element.GetReflection()->GetString(element, name), "]");
}

}  // namespace

const FieldRule* FindRule(const FieldRules& rules, std::string_view message,
                          std::string_view field) {
  for (const FieldRule& rule : rules) {
    if (message == rule.message && Holds(rule.fields, field)) return &rule;
  }
  return nullptr;
}

bool HasFields(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map() &&
         SchemaOf(field.message_type()).special == SpecialType::kNone;
}

void VisitTold(const FieldRules& rules, const Message& object, const std::string& path,
               const std::function<void(const ToldField&)>& visit) {
  const Reflection& reflection = *object.GetReflection();
  for (const FieldSchema& schema : SchemaOf(object.GetDescriptor()).fields) {
    const FieldDescriptor& field = *schema.field;
    const int count = field.is_repeated() ? reflection.FieldSize(object, &field)
                                          : reflection.HasField(object, &field);
    const FieldRule* rule =
        count == 0 ? nullptr : FindRule(rules, object.GetDescriptor()->name(), field.name());
    if (rule == nullptr || rule->treatment == Treatment::kRefused ||
        rule->treatment == Treatment::kElsewhere) {
      continue;
    }
    const std::string here = schema.inlined ? path : StrCat(path, ".", schema.json_name);
    if (rule->treatment == Treatment::kTold) {
      if (!IsHarmless(object, field, rule->harmless)) visit({here, *rule, object});
    } else if (HasFields(field) && !field.is_repeated()) {
      VisitTold(rules, reflection.GetMessage(object, &field), here, visit);
    } else if (HasFields(field)) {
      for (int i = 0; i < count; ++i) {
        const Message& element = reflection.GetRepeatedMessage(object, &field, i);
        VisitTold(rules, element, here + ElementOf(element, i), visit);
      }
    }
  }
}

}  // namespace holdfast::agent::kube
