// SPDX-License-Identifier: Apache-2.0
// Every field of a Pod, found by the schema, with every kind of value that it may not have: each is
// refused at its own path, and nothing else is.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <functional>

#include "agent/kube/codec.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/print.h"
#include "agent/kube/schema.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::vector<std::string> WrongForSpecial(SpecialType type) {
  switch (type) {
    case SpecialType::kQuantity:
      return {"true", "[]", "{}", "\"1x\"", "\"\""};
    case SpecialType::kIntOrString:
      return {"true", "[]", "{}", "1.5", "2147483648"};
    case SpecialType::kTime:
    case SpecialType::kMicroTime:
      return {"true", "[]", "{}", "1", "\"x\""};
    case SpecialType::kDuration:
      return {"true", "[]", "{}", "1", "\"x\""};
    default:
      return {};  // raw JSON may be anything
  }
}

std::vector<std::string> WrongFor(const FieldDescriptor& field) {
  if (field.is_map()) return {"\"x\"", "1", "true", "[]"};
  if (field.is_repeated()) return {"\"x\"", "1", "true", "{}"};
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return {"1", "1.5", "true", "[]", "{}"};
    case FieldDescriptor::CPPTYPE_BOOL:
      return {"\"true\"", "1", "[]", "{}"};
    case FieldDescriptor::CPPTYPE_INT32:
      return {"\"1\"", "true", "[]", "{}", "1.5", "2147483648", "-2147483649"};
    case FieldDescriptor::CPPTYPE_INT64:
      return {"\"1\"", "true", "[]", "{}", "1.5", "9223372036854775808", "-9223372036854775809"};
    default: {
      const SpecialType special = SchemaOf(field.message_type()).special;
      if (special != SpecialType::kNone) return WrongForSpecial(special);
      return {"\"x\"", "1", "true", "[]"};
    }
  }
}

// Calls `visit` with the path, the JSON around the value, and the field.
using Visit = std::function<void(const std::string& path, const std::string& before,
                                 const std::string& after, const FieldDescriptor& field)>;

void Walk(const Descriptor& descriptor, const std::string& path, const std::string& before,
          const std::string& after, int depth, const Visit& visit) {
  if (depth > 9) return;  // deep enough for every message once; affinity nests no further
  for (const auto& [name, fields] : SchemaOf(&descriptor).by_name) {
    const FieldDescriptor& field = *fields.back();
    const std::string here = path.empty() ? name : path + "." + name;
    const std::string open = before + "{\"" + name + "\":";
    visit(here, open, "}" + after, field);
    const bool message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map();
    if (!message || SchemaOf(field.message_type()).special != SpecialType::kNone) continue;
    if (field.is_repeated()) {
      Walk(*field.message_type(), here + "[0]", open + "[", "]}" + after, depth + 1, visit);
    } else {
      Walk(*field.message_type(), here, open, "}" + after, depth + 1, visit);
    }
  }
}

TEST(WrongTypeTest, EveryFieldOfAPodRefusesWhatItIsNot) {
  int fields = 0;
  Walk(*corev1::Pod::descriptor(), "", "", "", 0,
       [&](const std::string& path, const std::string& before, const std::string& after,
           const FieldDescriptor& field) {
         ++fields;
         for (const std::string& value : WrongFor(field)) {
           const ParsedText parsed = ParseJson(before + value + after);
           ASSERT_TRUE(parsed.errors.empty());
           corev1::Pod pod;
           std::vector<Diagnostic> diagnostics;
           FromTree(parsed.documents.at(0), {}, &pod, &diagnostics);
           ASSERT_EQ(diagnostics.size(), 1u) << path << " = " << value;
           ASSERT_EQ(diagnostics[0].path, path) << value;
           ASSERT_GT(diagnostics[0].at.column, 0u);
         }
       });
  EXPECT_GT(fields, 1000);
}

}  // namespace
}  // namespace holdfast::agent::kube
