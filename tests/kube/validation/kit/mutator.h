// SPDX-License-Identifier: Apache-2.0
// Mutator: makes mutants of good objects: the same one for the same seed and the same good objects,
// wherever it runs. Single-thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/kube/tree.h"
#include "tests/kube/validation/kit/edit.h"
#include "tests/kube/validation/kit/fields.h"
#include "tests/kube/validation/kit/values.h"

namespace holdfast::agent::kube {

// Good objects by name.
using Bases = std::map<std::string, Node>;

// The objects of the *.yaml files in the folder, by the files' names without ending.
Result<Bases> ReadBases(const std::string& folder);

struct Mutant {
  std::string base;
  std::vector<Edit> edits;
};

// The object as JSON.
std::string TextOf(const Mutant& mutant, const Bases& bases);

class Mutator {
 public:
  explicit Mutator(const Bases& bases);

  Mutant Make(uint64_t seed) const;

  // Fields that stand in none of the good objects: mutants seldom reach what is judged only beside
  // others.
  std::vector<std::string> FieldsOfNoBase() const;

 private:
  // Where a field can be mutated: in these objects its surroundings are there.
  struct Target {
    Field field;
    std::vector<std::pair<const std::string*, Path>> places;
    std::vector<const std::string*> bases;  // of its kind
  };

  void AddTargets(const google::protobuf::Descriptor* kind, const std::string& kind_name,
                  const std::vector<std::string>& leave_out);
  Edit AnyEdit(const Target& target, const Path& place, const Node& object, Chance& chance) const;
  // Of a field beside the one at `place`, or of any other of the same kind.
  const Target& Other(const Target& target, Chance& chance) const;

  const Bases& bases_;
  Harvest harvest_;
  std::vector<Target> targets_;
};

}  // namespace holdfast::agent::kube
