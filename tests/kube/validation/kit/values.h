// SPDX-License-Identifier: Apache-2.0
// Values for the fields of a mutated object: what is likely to be judged in one way or the other,
// by the type of the field. Pure but for the given source of chance.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

// The same numbers on every machine for the same seed.
class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  size_t Below(size_t count) { return static_cast<size_t>(engine_() % count); }
  bool Percent(size_t percent) { return Below(100) < percent; }
  template <class List>
  const auto& OneOf(const List& list) {
    return list[Below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

// The values that stand in the good objects, by the name of their field.
using Harvest = std::map<std::string, std::vector<Node>>;

void Gather(const Node& node, Harvest* harvest);

// A value of the field's type, often one that breaks a rule. `now` is what stands there, or
// nullptr.
Node ValueFor(const google::protobuf::FieldDescriptor& field, const std::string& name,
              const Node* now, const Harvest& harvest, Chance& chance);

// A value of another type than the field's.
Node WrongTypeFor(const google::protobuf::FieldDescriptor& field, Chance& chance);

// Nothing, in one of the ways in which it can be written.
Node EmptyFor(const google::protobuf::FieldDescriptor& field, Chance& chance);

}  // namespace holdfast::agent::kube
