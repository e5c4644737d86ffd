// SPDX-License-Identifier: Apache-2.0
// kube_mutants make BASES SEED COUNT [SEED…]   mutants of the good objects in the folder, one a
// line: of
//                                        COUNT seeds from the first on, and of the others
// kube_mutants texts FILE                the texts by hand, one a line
// kube_mutants bases BASES               the good objects, as recorded cases need them
// kube_mutants judge WANTED [CASES…]     compares answered cases with our own verdict; 1 when
// something
//                                        differs that is not wanted. Standard input without CASES.
// kube_mutants strip < CASES             without the texts of mutants, which their edits make again
// kube_mutants show BASES SEED           a mutant's edits and text, and our verdict
// kube_mutants missing BASES             fields that stand in no good object
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "holdfast/base/strings.h"
#include "tests/kube/validation/kit/cases.h"

namespace holdfast::agent::kube {
namespace {

using Arguments = std::vector<std::string>;

Result<uint64_t> NumberFrom(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return InvalidArgument(StrCat(text, ": not a number"));
  return number;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<void> Make(const Arguments& words) {
  ASSIGN_OR_RETURN(const Bases bases, ReadBases(words.at(0)));
  ASSIGN_OR_RETURN(const uint64_t seed, NumberFrom(words.at(1)));
  ASSIGN_OR_RETURN(const uint64_t count, NumberFrom(words.at(2)));
  const Mutator mutator(bases);
  std::vector<uint64_t> seeds;
  for (uint64_t i = 0; i < count; ++i) seeds.push_back(seed + i);
  for (size_t i = 3; i < words.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t one, NumberFrom(words[i]));
    seeds.push_back(one);
  }
  for (const uint64_t one : seeds) std::cout << LineOf(one, mutator.Make(one), bases) << '\n';
  return {};
}

Result<void> PrintTexts(const Arguments& words) {
  const ParsedText parsed = ParseYaml(ReadAll(words.at(0)));
  if (parsed.documents.size() != 1) return InvalidArgument(StrCat(words[0], ": not one document"));
  for (const Member& text : parsed.documents.front().members) {
    Node line = Node::Map();
    line.Add("id", Node::String(text.key));
    line.Add("text", text.value);
    std::cout << CompactJson(line) << '\n';
  }
  return {};
}

Result<void> PrintBases(const Arguments& words) {
  ASSIGN_OR_RETURN(const Bases bases, ReadBases(words.at(0)));
  for (const auto& [name, object] : bases) {
    Node line = Node::Map();
    line.Add("base", Node::String(name));
    line.Add("object", object);
    std::cout << CompactJson(line) << '\n';
  }
  return {};
}

Result<void> JudgeCases(const Arguments& words) {
  std::string fault;
  const std::vector<Wanted> wanted = ReadWanted(ReadAll(words.at(0)), &fault);
  if (!fault.empty()) return InvalidArgument(StrCat(words[0], ": ", fault));
  Tally tally(wanted);
  CaseReader reader([&](const Case& one) { tally.Add(one); });
  for (size_t i = 1; i < words.size(); ++i) RETURN_IF_ERROR(reader.ReadFile(words[i]));
  std::string line;
  while (words.size() == 1 && std::getline(std::cin, line)) RETURN_IF_ERROR(reader.ReadLine(line));
  std::cout << tally.Summary();
  if (tally.cases() == 0) return InvalidArgument("no cases");
  if (!tally.AllWanted()) return InvalidArgument("there are differences that nobody wants");
  return {};
}

Result<void> Strip(const Arguments&) {
  constexpr ParseLimits kLimits = {.max_bytes = 64u << 20, .max_document_bytes = 64u << 20};
  std::string line;
  while (std::getline(std::cin, line)) {
    ParsedText parsed = ParseJson(line, kLimits);
    if (parsed.documents.size() != 1 || !parsed.errors.empty()) {
      return InvalidArgument("a line that is no case");
    }
    Node& one = parsed.documents.front();
    if (one.Find("edits") != nullptr) {
      std::erase_if(one.members, [](const Member& member) { return member.key == "text"; });
    }
    std::cout << CompactJson(one) << '\n';
  }
  return {};
}

Result<void> Show(const Arguments& words) {
  ASSIGN_OR_RETURN(const Bases bases, ReadBases(words.at(0)));
  ASSIGN_OR_RETURN(const uint64_t seed, NumberFrom(words.at(1)));
  const Mutant mutant = Mutator(bases).Make(seed);
  std::cout << mutant.base << '\n';
  for (const Edit& edit : mutant.edits) std::cout << CompactJson(ToNode(edit)) << '\n';
  const std::string text = TextOf(mutant, bases);
  std::cout << text << '\n';
  for (const Finding& finding : Judge(text)) std::cout << finding.ToString() << '\n';
  return {};
}

Result<void> Missing(const Arguments& words) {
  ASSIGN_OR_RETURN(const Bases bases, ReadBases(words.at(0)));
  for (const std::string& name : Mutator(bases).FieldsOfNoBase()) std::cout << name << '\n';
  return {};
}

struct Command {
  const char* name;
  size_t least_words;
  Result<void> (*run)(const Arguments&);
};

constexpr Command kCommands[] = {{"make", 3, Make},        {"texts", 1, PrintTexts},
                                 {"bases", 1, PrintBases}, {"judge", 1, JudgeCases},
                                 {"strip", 0, Strip},      {"show", 2, Show},
                                 {"missing", 1, Missing}};

int Run(Arguments words) {
  for (const Command& command : kCommands) {
    if (words.empty() || words[0] != command.name || words.size() <= command.least_words) continue;
    words.erase(words.begin());
    const auto done = command.run(words);
    if (done.has_value()) return 0;
    std::cerr << "kube_mutants: " << done.error().message() << '\n';
    return 1;
  }
  std::cerr << "usage: kube_mutants make|texts|bases|judge|strip|show|missing … (see main.cc)\n";
  return 2;
}

}  // namespace
}  // namespace holdfast::agent::kube

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  return holdfast::agent::kube::Run({argv + 1, argv + argc});
}
