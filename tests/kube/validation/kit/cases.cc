// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/cases.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kShownWords = 20;
constexpr size_t kShownFaults = 200;
constexpr size_t kShownText = 600;

std::string TextAt(const Node& line, std::string_view name) {
  const Node* value = line.Find(name);
  return value == nullptr ? "" : value->text;
}

// "ours spec.containers[].name: Invalid value"
std::string Group(const std::string& finding) {
  std::string group = finding.substr(0, finding.find(": ", finding.find(": ") + 2));
  std::erase_if(group, [](char c) { return c >= '0' && c <= '9'; });
  return group;
}

}  // namespace

std::string LineOf(uint64_t seed, const Mutant& mutant, const Bases& bases) {
  Node line = Node::Map();
  line.Add("id", Node::Int(static_cast<int64_t>(seed)));
  line.Add("base", Node::String(mutant.base));
  Node& edits = line.Add("edits", Node::List());
  for (const Edit& edit : mutant.edits) edits.items.push_back(ToNode(edit));
  line.Add("text", Node::String(TextOf(mutant, bases)));
  return CompactJson(line);
}

Result<void> CaseReader::ReadLine(std::string_view line) {
  constexpr ParseLimits kLimits = {.max_bytes = 64u << 20, .max_document_bytes = 64u << 20};
  const ParsedText parsed = ParseJson(line, kLimits);
  if (parsed.documents.size() != 1 || !parsed.errors.empty()) {
    return InvalidArgument(StrCat("not one JSON object: ", line.substr(0, 200)));
  }
  const Node& node = parsed.documents.front();
  if (const Node* object = node.Find("object")) {
    bases_[TextAt(node, "base")] = *object;
    return {};
  }
  Case one{.id = TextAt(node, "id"),
           .base = TextAt(node, "base"),
           .text = TextAt(node, "text"),
           .theirs = VerdictFrom(node)};
  if (node.Find("code") == nullptr) return InvalidArgument("a case without an answer");
  if (const Node* edits = node.Find("edits"); edits != nullptr && one.text.empty()) {
    Mutant mutant{.base = one.base, .edits = {}};
    for (const Node& edit : edits->items) {
      ASSIGN_OR_RETURN(Edit read, EditFrom(edit));
      mutant.edits.push_back(std::move(read));
    }
    if (!bases_.contains(one.base)) return InvalidArgument("a case before its base");
    one.text = TextOf(mutant, bases_);
  }
  take_(one);
  return {};
}

Result<void> CaseReader::ReadFile(const std::string& path) {
  const std::unique_ptr<gzFile_s, decltype(&::gzclose)> file(::gzopen(path.c_str(), "rb"),
                                                             &::gzclose);
  if (file == nullptr) return InvalidArgument(StrCat("open ", path));
  std::string line;
  char buffer[1 << 16];
  while (::gzgets(file.get(), buffer, sizeof buffer) != nullptr) {
    line += buffer;
    if (!line.ends_with('\n')) continue;
    line.pop_back();
    RETURN_IF_ERROR(ReadLine(line));
    line.clear();
  }
  int error = Z_OK;
  const char* const message = ::gzerror(file.get(), &error);
  if (error != Z_OK && error != Z_STREAM_END) return InvalidArgument(StrCat(path, ": ", message));
  return line.empty() ? Result<void>() : ReadLine(line);
}

void Tally::Add(const Case& one) {
  const Verdict ours = Judge(one.text);
  const Comparison comparison = Compare(ours, one.theirs, wanted_);
  ++cases_;
  const bool judged = comparison.both_refuse && !comparison.both_unreadable;
  accepted_ += ours.empty() && one.theirs.empty();
  refused_ += comparison.both_refuse;
  unreadable_ += comparison.both_unreadable;
  same_fields_ += judged && comparison.same_fields;
  same_text_ += judged && comparison.same_text;
  stricter_ += !ours.empty() && one.theirs.empty();
  laxer_ += ours.empty() && !one.theirs.empty();
  for (const Wanted* entry : comparison.used) {
    Sample& sample = used_[entry];
    if (sample.count++ == 0) sample.text = one.id;
  }
  const auto count = [&one](const std::string& finding, std::map<std::string, Sample>* groups) {
    Sample& sample = (*groups)[Group(finding)];
    if (sample.count++ == 0) sample.text = StrCat("seed ", one.id, " of ", one.base, ": ", finding);
  };
  for (const std::string& words : comparison.other_words) count(words, &other_words_);
  for (const std::string& finding : comparison.not_wanted) count(finding, &not_wanted_);
}

std::vector<const Wanted*> Tally::Unused() const {
  std::vector<const Wanted*> unused;
  for (const Wanted& entry : wanted_) {
    if (!used_.contains(&entry)) unused.push_back(&entry);
  }
  return unused;
}

std::string Tally::List(std::string_view title, const std::map<std::string, Sample>& groups,
                        size_t most) {
  std::vector<std::pair<std::string, Sample>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  std::string text;
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    const Sample& sample = sorted[i].second;
    text += StrCat(title, " ", sample.count, " times: ", sample.text.substr(0, kShownText), "\n");
  }
  return text;
}

std::string Tally::Summary() const {
  std::string text = StrCat(
      cases_, " cases: accepted by both ", accepted_, ", refused by both ", refused_,
      ", by us alone ", stricter_, ", by Kubernetes alone ", laxer_, "\nof those refused by both ",
      unreadable_, " cannot be read; of the other ", refused_ - unreadable_,
      " all fields and kinds equal ", same_fields_, ", word for word ", same_text_, "\n");
  for (const Wanted& entry : wanted_) {
    const auto used = used_.find(&entry);
    if (used == used_.end()) {
      text += StrCat("wanted, not needed: line ", entry.line, ", ", entry.reason, "\n");
    } else {
      text += StrCat("wanted ", used->second.count, " times, first by seed ", used->second.text,
                     ": line ", entry.line, ", ", entry.reason, "\n");
    }
  }
  text += List("other words", other_words_, kShownWords);
  text += List("NOT WANTED", not_wanted_, kShownFaults);
  return text;
}

}  // namespace holdfast::agent::kube
