// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/mutator.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "agent/kube/types_fwd.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kSecondEditPercent = 35;
constexpr size_t kThirdEditPercent = 10;

// The status of a pod is nobody's to write; ephemeral containers are refused as a whole.
const std::vector<std::string>& LeftOutOfPods() {
  static const auto& names = *new std::vector<std::string>{"status", "spec.ephemeralContainers"};
  return names;
}

bool IsOfKind(const Node& object, std::string_view kind) {
  const Node* value = object.Find("kind");
  return value != nullptr && value->text == kind;
}

// The longest part of the path that both have.
size_t Shared(const Field& a, const Field& b) {
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same].name == b[same].name) ++same;
  return same;
}

}  // namespace

Result<Bases> ReadBases(const std::string& folder) {
  Bases bases;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    ParsedText parsed = ParseYaml(text.str());
    if (!file || parsed.documents.size() != 1 || !parsed.errors.empty()) {
      return InvalidArgument(StrCat("read ", entry.path().string(), ": not one YAML document"));
    }
    bases[entry.path().stem().string()] = std::move(parsed.documents.front());
  }
  if (error || bases.empty()) return InvalidArgument(StrCat("read ", folder, ": no good objects"));
  return bases;
}

std::string TextOf(const Mutant& mutant, const Bases& bases) {
  Node object = bases.at(mutant.base);
  for (const Edit& edit : mutant.edits) Apply(edit, &object);
  return CompactJson(object);
}

Mutator::Mutator(const Bases& bases) : bases_(bases) {
  for (const auto& [name, object] : bases_) Gather(object, &harvest_);
  AddTargets(corev1::Pod::descriptor(), "Pod", LeftOutOfPods());
  AddTargets(corev1::Service::descriptor(), "Service", {});
}

void Mutator::AddTargets(const google::protobuf::Descriptor* kind, const std::string& kind_name,
                         const std::vector<std::string>& leave_out) {
  for (Field& field : FieldsOf(kind, leave_out)) {
    Target target{std::move(field), {}, {}};
    for (const auto& [name, object] : bases_) {
      if (!IsOfKind(object, kind_name)) continue;
      target.bases.push_back(&name);
      for (Path& place : PlacesOf(target.field, object)) {
        target.places.emplace_back(&name, std::move(place));
      }
    }
    if (!target.bases.empty()) targets_.push_back(std::move(target));
  }
}

Edit Mutator::AnyEdit(const Target& target, const Path& place, const Node& object,
                      Chance& chance) const {
  const auto& [name, field] = target.field.back();
  const Node* now = FindAt(object, place);
  const size_t way = chance.Below(100);
  if (now != nullptr && way < 15) return {Edit::Verb::kRemove, place, {}};
  if (way < 25) return {Edit::Verb::kSet, place, EmptyFor(*field, chance)};
  if (way < 31) return {Edit::Verb::kSet, place, WrongTypeFor(*field, chance)};
  if (way < 33) {
    Path unknown = place;
    unknown.back() = name + "X";
    return {Edit::Verb::kSet, std::move(unknown), Node::Int(1)};
  }
  const Node value = ValueFor(*field, name, now, harvest_, chance);
  if (way < 35) return {Edit::Verb::kDouble, place, value};
  return {Edit::Verb::kSet, place, value};
}

const Mutator::Target& Mutator::Other(const Target& target, Chance& chance) const {
  constexpr int kTries = 40;
  const Target* best = &chance.OneOf(targets_);
  for (int i = 0; i < kTries; ++i) {
    const Target& other = chance.OneOf(targets_);
    const bool same_kind = other.bases == target.bases;
    if (same_kind && (best->bases != target.bases ||
                      Shared(other.field, target.field) > Shared(best->field, target.field))) {
      best = &other;
    }
  }
  return best->bases == target.bases ? *best : target;
}

Mutant Mutator::Make(uint64_t seed) const {
  Chance chance(seed);
  const Target* target = &chance.OneOf(targets_);
  Mutant mutant;
  Path place = MadePlaceOf(target->field);
  if (target->places.empty() || chance.Percent(5)) {
    mutant.base = *chance.OneOf(target->bases);
  } else {
    const auto& [base, found] = chance.OneOf(target->places);
    mutant.base = *base;
    place = found;
  }
  Node object = bases_.at(mutant.base);
  for (size_t more = 100; chance.Percent(more);
       more = more == 100 ? kSecondEditPercent : kThirdEditPercent) {
    mutant.edits.push_back(AnyEdit(*target, place, object, chance));
    Apply(mutant.edits.back(), &object);
    if (mutant.edits.back().verb == Edit::Verb::kDouble)
      break;  // no value of an edit has such a key
    target = &Other(*target, chance);
    const std::vector<Path> places = PlacesOf(target->field, object);
    place = places.empty() ? MadePlaceOf(target->field) : chance.OneOf(places);
  }
  return mutant;
}

std::vector<std::string> Mutator::FieldsOfNoBase() const {
  std::vector<std::string> names;
  for (const Target& target : targets_) {
    const auto stands = [&](const auto& place) {
      return FindAt(bases_.at(*place.first), place.second) != nullptr;
    };
    if (std::none_of(target.places.begin(), target.places.end(), stands)) {
      names.push_back(FieldName(target.field));
    }
  }
  return names;
}

}  // namespace holdfast::agent::kube
