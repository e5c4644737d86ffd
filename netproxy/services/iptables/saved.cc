// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/saved.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {
namespace {

// Words of a rule; quotes are taken away.
std::vector<std::string> Words(std::string_view rule) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  bool any = false;
  for (size_t i = 0; i < rule.size(); ++i) {
    const char c = rule[i];
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (c == '\\' && quoted && i + 1 < rule.size()) {
      word.push_back(rule[++i]);
    } else if (c == ' ' && !quoted) {
      if (any) words.push_back(std::exchange(word, {}));
      any = false;
    } else {
      word.push_back(c);
      any = true;
    }
  }
  if (any) words.push_back(std::move(word));
  return words;
}

// An option with its arguments: "! -s 10.0.0.0/8". A comment may begin with anything.
std::vector<std::vector<std::string>> Options(std::vector<std::string> words) {
  std::vector<std::vector<std::string>> options;
  bool inverted = false;
  bool is_comment = false;
  for (std::string& word : words) {
    if (!is_comment && word == "!") {
      inverted = true;
      continue;
    }
    if (!is_comment && (word.starts_with("-") || options.empty() || inverted)) {
      options.emplace_back();
      if (inverted) options.back().emplace_back("!");
      inverted = false;
    }
    is_comment = word == "--comment" && !is_comment;
    options.back().push_back(std::move(word));
  }
  return options;
}

bool IsDefault(const std::vector<std::string>& option) {
  static const std::vector<std::vector<std::string>> kDefaults = {
      {"--reject-with", "icmp-port-unreachable"},
      {"--reject-with", "icmp6-port-unreachable"},
      {"--rsource"},
      {"--mask", "255.255.255.255"},
      {"--mask", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
  };
  return std::find(kDefaults.begin(), kDefaults.end(), option) != kDefaults.end();
}

void Normalize(std::vector<std::string>& option) {
  const bool inverted = option.front() == "!";
  const std::string name = option[inverted ? 1 : 0];
  if (option.size() < (inverted ? 3u : 2u)) return;
  std::string& value = option.back();
  if ((name == "-s" || name == "-d") && value.find('/') == std::string::npos) {
    value += value.find(':') == std::string::npos ? "/32" : "/128";
  } else if (name == "--probability") {
    // The kernel keeps parts of 2^31.
    value = StrCat(std::llround(std::strtod(value.c_str(), nullptr) * 0x80000000p0));
  } else if (name == "--or-mark") {
    option = {"--set-xmark", StrCat(value, "/", value)};
  } else if (name == "--xor-mark") {
    option = {"--set-xmark", StrCat(value, "/0x0")};
  }
}

std::optional<Table> TableByName(std::string_view name) {
  for (const Table table : kAllTables) {
    if (ToString(table) == name) return table;
  }
  return std::nullopt;
}

std::string_view UpTo(std::string_view text, char end) { return text.substr(0, text.find(end)); }

// One line of a table of ours.
void ParseLine(std::string_view line, SavedTable& table) {
  if (line.starts_with(":")) {
    table[std::string(UpTo(line.substr(1), ' '))];
  } else if (line.starts_with("-A ")) {
    line.remove_prefix(3);
    const std::string_view chain = UpTo(line, ' ');
    line.remove_prefix(std::min(line.size(), chain.size() + 1));
    table[std::string(chain)].emplace_back(line);
  }
}

}  // namespace

Result<Saved> ParseSaved(std::string_view text) {
  Saved saved;
  SavedTable* table = nullptr;
  while (!text.empty()) {
    const std::string_view line = UpTo(text, '\n');
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with("#") && line.find("is incompatible") != std::string_view::npos) {
      return Conflict(StrCat("iptables-save: ", line.substr(line.find_first_not_of("# "))));
    }
    if (line.starts_with("*")) {
      const auto known = TableByName(line.substr(1));
      table = known ? &saved.tables[Index(*known)] : nullptr;
    } else if (table != nullptr) {
      ParseLine(line, *table);
    }
  }
  return saved;
}

std::string Canonical(std::string_view rule) {
  std::vector<std::string> parts;
  for (auto& option : Options(Words(rule))) {
    if (IsDefault(option)) continue;
    Normalize(option);
    parts.push_back(Join(option, " "));
  }
  std::sort(parts.begin(), parts.end());
  std::string out;
  for (const std::string& part : parts) out += StrCat(part, "\n");
  return out;
}

std::string TargetOf(std::string_view rule) {
  for (const auto& option : Options(Words(rule))) {
    if ((option.front() == "-j" || option.front() == "-g") && option.size() > 1) return option[1];
  }
  return "";
}

std::vector<std::string_view> RulesOf(std::string_view body) {
  std::vector<std::string_view> rules;
  while (!body.empty()) {
    std::string_view line = UpTo(body, '\n');
    body.remove_prefix(std::min(body.size(), line.size() + 1));
    line.remove_prefix(3);
    line.remove_prefix(std::min(line.size(), UpTo(line, ' ').size() + 1));
    rules.push_back(line);
  }
  return rules;
}

}  // namespace holdfast::netproxy::iptables
