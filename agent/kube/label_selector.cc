// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/label_selector.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

// Every object is compared with every requirement, on a thread that other calls need too.
constexpr size_t kMaxSelectorBytes = 4096;

}  // namespace

bool LabelSelector::Requirement::Accepts(const std::string* value) const {
  const bool listed =
      value != nullptr && std::find(values.begin(), values.end(), *value) != values.end();
  switch (op) {
    case Operator::kIn:
      return listed;
    case Operator::kNotIn:
      return !listed;  // an absent label is in no list
    case Operator::kExists:
      return value != nullptr;
    case Operator::kDoesNotExist:
      return value == nullptr;
  }
  return false;
}

class LabelSelector::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Requirement>> Run() {
    std::vector<Requirement> requirements;
    SkipSpace();
    if (AtEnd()) return requirements;
    while (true) {
      ASSIGN_OR_RETURN(Requirement requirement, ParseRequirement());
      requirements.push_back(std::move(requirement));
      if (AtEnd()) return requirements;
      if (!Take(",")) return Unexpected("','");
    }
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  void SkipSpace() {
    while (!AtEnd() && text_[at_] == ' ') ++at_;
  }
  bool Take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    SkipSpace();
    return true;
  }
  // A key or value; may be empty.
  std::string Word() {
    const size_t end = std::min(text_.find_first_of(" ,=!()", at_), text_.size());
    std::string word(text_.substr(at_, end - at_));
    at_ = end;
    SkipSpace();
    return word;
  }
  Error Unexpected(std::string_view wanted) const {
    return InvalidArgument(StrCat("unable to parse label selector \"", text_, "\": expected ",
                                  wanted, " at position ", at_ + 1));
  }

  Result<Requirement> ParseRequirement() {
    if (Take("!")) {
      Requirement absent{.key = Word(), .op = Operator::kDoesNotExist, .values = {}};
      if (absent.key.empty()) return Unexpected("a label");
      return absent;
    }
    Requirement requirement{.key = Word(), .op = Operator::kExists, .values = {}};
    if (requirement.key.empty()) return Unexpected("a label");
    if (AtEnd() || text_[at_] == ',') return requirement;
    if (Take("==") || Take("=")) {
      requirement.op = Operator::kIn;
      requirement.values = {Word()};
    } else if (Take("!=")) {
      requirement.op = Operator::kNotIn;
      requirement.values = {Word()};
    } else {
      const std::string op = Word();
      if (op != "in" && op != "notin") return Unexpected("'=', '!=', 'in' or 'notin'");
      requirement.op = op == "in" ? Operator::kIn : Operator::kNotIn;
      RETURN_IF_ERROR(ParseValues(requirement.values));
    }
    return requirement;
  }

  Result<void> ParseValues(std::vector<std::string>& values) {
    if (!Take("(")) return Unexpected("'('");
    do {
      values.push_back(Word());
    } while (Take(","));
    if (!Take(")")) return Unexpected("')'");
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

Result<LabelSelector> LabelSelector::Parse(std::string_view text) {
  if (text.size() > kMaxSelectorBytes) {
    return InvalidArgument(StrCat("label selector: more than ", kMaxSelectorBytes, " bytes"));
  }
  LabelSelector selector;
  ASSIGN_OR_RETURN(selector.requirements_, Parser(text).Run());
  return selector;
}

}  // namespace holdfast::agent::kube
