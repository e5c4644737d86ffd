// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/words.h"

#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

const CLI::App* Subcommand(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

// Of this command, or of those that it falls through to.
const CLI::Option* FindOption(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option != nullptr) return option;
  }
  return nullptr;
}

bool TakesNextWord(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_min() > 0;
}

bool IsFlag(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

// CLI11 gives what no number is only in its text, "Could not convert: --tail = x".
std::string ConversionFault(const std::string& text) {
  constexpr std::string_view kBegin = "Could not convert: ", kBetween = " = ";
  const size_t between = text.find(kBetween);
  if (!text.starts_with(kBegin) || between == std::string::npos) return text;
  return InvalidFlag(text.substr(kBegin.size(), between - kBegin.size()),
                     text.substr(between + kBetween.size()), "not a number of its range");
}

}  // namespace

std::string InvalidFlag(const std::string& flag, const std::string& argument,
                        const std::string& why) {
  return StrCat("invalid argument \"", argument, "\" for \"", flag, "\" flag: ", why);
}

std::string FlagFault(const CLI::ParseError& error, const std::vector<std::string>& unknown,
                      const std::string& last) {
  for (const std::string& word : unknown) {
    if (!IsFlag(word)) continue;
    if (word[1] == '-') return StrCat("unknown flag: ", word.substr(0, word.find('=')));
    return StrCat("unknown shorthand flag: '", word.substr(1, 1), "' in ", word);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && IsFlag(last)) {
    if (last[1] == '-') return StrCat("flag needs an argument: ", last);
    return StrCat("flag needs an argument: '", last.substr(last.size() - 1), "' in ", last);
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return ConversionFault(error.what());
  }
  return error.what();
}

std::vector<std::string> WithLongNames(const CLI::App& app, std::vector<std::string> words) {
  const CLI::App* command = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      if (const CLI::App* next = Subcommand(*command, word)) command = next;
      continue;
    }
    const size_t equals = word.find('=');
    if (word[1] == '-') {
      const bool alone = equals == std::string::npos;
      if (alone && TakesNextWord(FindOption(command, word))) ++i;
      continue;
    }
    const CLI::Option* option = FindOption(command, word.substr(0, 2));
    if (word.size() == 2) {
      if (TakesNextWord(option)) ++i;
    } else if (equals == 2 && word.size() > 3 && option != nullptr &&
               !option->get_lnames().empty()) {
      word = StrCat("--", option->get_lnames().front(), word.substr(equals));
    }
  }
  return words;
}

const CLI::App* FindCommand(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    if (command != nullptr) command = Subcommand(*command, word);
  }
  return command;
}

}  // namespace holdfast::agent::cli
