// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/fields.h"

#include <algorithm>

#include "agent/kube/schema.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMostSteps = 10;  // deep enough for every message once; affinity nests no further

bool HasFields(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map() &&
         SchemaOf(field.message_type()).special == SpecialType::kNone;
}

void Walk(const Descriptor* message, const Field& around, const std::vector<std::string>& leave_out,
          std::vector<Field>* found) {
  if (around.size() >= kMostSteps) return;
  for (const auto& [name, path] : SchemaOf(message).by_name) {
    Field field = around;
    field.push_back({name, path.back()});
    if (std::find(leave_out.begin(), leave_out.end(), FieldName(field)) != leave_out.end())
      continue;
    found->push_back(field);
    if (HasFields(*path.back())) Walk(path.back()->message_type(), field, leave_out, found);
  }
}

void Collect(const Field& field, size_t step, const Node& node, Path here,
             std::vector<Path>* places) {
  here.emplace_back(field[step].name);
  if (step + 1 == field.size()) return places->push_back(here);
  const Node* next = node.Find(field[step].name);
  if (next == nullptr) return;
  if (!field[step].field->is_repeated()) {
    return Collect(field, step + 1, *next, std::move(here), places);
  }
  for (size_t i = 0; i < next->items.size(); ++i) {
    Path item = here;
    item.emplace_back(i);
    Collect(field, step + 1, next->items[i], std::move(item), places);
  }
}

}  // namespace

std::string FieldName(const Field& field) {
  std::string name;
  for (size_t i = 0; i < field.size(); ++i) {
    if (i > 0) name += field[i - 1].field->is_repeated() ? "[]." : ".";
    name += field[i].name;
  }
  return name;
}

std::vector<Field> FieldsOf(const Descriptor* kind, const std::vector<std::string>& leave_out) {
  std::vector<Field> found;
  Walk(kind, {}, leave_out, &found);
  return found;
}

std::vector<Path> PlacesOf(const Field& field, const Node& object) {
  std::vector<Path> places;
  Collect(field, 0, object, {}, &places);
  return places;
}

Path MadePlaceOf(const Field& field) {
  Path path;
  for (size_t i = 0; i < field.size(); ++i) {
    path.emplace_back(field[i].name);
    if (i + 1 < field.size() && field[i].field->is_repeated()) path.emplace_back(size_t{0});
  }
  return path;
}

}  // namespace holdfast::agent::kube
