// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/challenge.h"

#include <algorithm>
#include <string>

#include "holdfast/base/ascii.h"

namespace holdfast::runtime::fetch {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

bool IsTokenCharacter(char c) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return IsAlphanumeric(c) || kOther.find(c) != std::string_view::npos;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }
  void SkipSpaces() {
    while (!rest_.empty() && IsSpace(rest_.front())) rest_.remove_prefix(1);
  }
  void SkipSeparators() {
    while (!rest_.empty() && (IsSpace(rest_.front()) || rest_.front() == ',')) {
      rest_.remove_prefix(1);
    }
  }
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Lower case; names are compared without regard to case.
  std::string Token() {
    std::string token;
    while (!rest_.empty() && IsTokenCharacter(rest_.front())) {
      token.push_back(ToLower(rest_.front()));
      rest_.remove_prefix(1);
    }
    return token;
  }
  // A quoted string or a token as it stands.
  bool Value(std::string& value) {
    if (!Take('"')) {
      const auto end = std::ranges::find_if_not(rest_, IsTokenCharacter);
      value.assign(rest_.begin(), end);
      rest_.remove_prefix(value.size());
      return !value.empty();
    }
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      value.push_back(rest_.front());
      rest_.remove_prefix(1);
    }
    return Take('"');
  }

 private:
  std::string_view rest_;
};

std::string* FieldOf(Challenge& challenge, std::string_view name) {
  if (name == "realm") return &challenge.realm;
  if (name == "service") return &challenge.service;
  if (name == "scope") return &challenge.scope;
  if (name == "error") return &challenge.error;
  return nullptr;
}

}  // namespace

std::vector<Challenge> ParseChallenges(std::string_view header) {
  std::vector<Challenge> challenges;
  Reader reader(header);
  reader.SkipSeparators();
  while (!reader.AtEnd() && challenges.size() < kMaxChallenges) {
    const std::string word = reader.Token();
    reader.SkipSpaces();
    if (word.empty()) break;
    if (!reader.Take('=')) {  // a scheme: its parameters follow
      challenges.push_back({word, "", "", "", ""});
      reader.SkipSeparators();
      continue;
    }
    std::string value;
    reader.SkipSpaces();
    if (challenges.empty() || !reader.Value(value)) break;
    if (std::string* field = FieldOf(challenges.back(), word)) *field = std::move(value);
    reader.SkipSeparators();
  }
  return challenges;
}

}  // namespace holdfast::runtime::fetch
