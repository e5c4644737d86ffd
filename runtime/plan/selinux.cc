// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/selinux.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

// The kernel takes a page; nobody names anything like that.
constexpr size_t kMaxPart = 255;
// Tried at random before each is looked at in turn.
constexpr int kRandomTries = 100;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Calls take(key, value) with what is on each line of the form KEY = VALUE, without the quotes.
template <class Take>
void EachSetting(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = line.find('=');
    if (line.empty() || line[0] == '#' || line[0] == ';' || equals == std::string_view::npos) {
      continue;
    }
    std::string_view value = Trimmed(line.substr(equals + 1));
    while (value.starts_with('"')) value.remove_prefix(1);
    while (value.ends_with('"')) value.remove_suffix(1);
    take(Trimmed(line.substr(0, equals)), value);
  }
}

struct Label {
  std::string user, role, type, level;

  std::string Text() const {
    return StrCat(user, ":", role, ":", type, level.empty() ? "" : ":", level);
  }
};

Result<Label> ParseLabel(const std::string& text) {
  Label label;
  std::string* const parts[] = {&label.user, &label.role, &label.type};
  size_t at = 0;
  for (std::string* part : parts) {
    const size_t end = std::min(text.find(':', at), text.size());
    *part = text.substr(at, end - at);
    if (part->empty()) return InvalidArgument(StrCat("SELinux label \"", text, "\": malformed"));
    at = std::min(end + 1, text.size());
  }
  label.level = text.substr(at);
  return label;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes "c" and one to four digits.
bool TakeCategory(std::string_view& text) {
  if (!text.starts_with('c')) return false;
  size_t digits = 0;
  while (digits < 4 && 1 + digits < text.size() && IsDigit(text[1 + digits])) ++digits;
  if (digits == 0) return false;
  text.remove_prefix(1 + digits);
  return true;
}

bool TakeSensitivity(std::string_view& text) {
  if (text.size() < 2 || text[0] != 's' || !IsDigit(text[1])) return false;
  text.remove_prefix(2);
  return true;
}

// sN, sN-sN, and behind a ':' a list of cN and cN.cN.
bool IsLevel(std::string_view text) {
  if (!TakeSensitivity(text)) return false;
  if (text.starts_with('-')) {
    text.remove_prefix(1);
    if (!TakeSensitivity(text)) return false;
  }
  if (text.empty()) return true;
  char before = ':';
  while (text.starts_with(before)) {
    text.remove_prefix(1);
    if (!TakeCategory(text)) return false;
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      if (!TakeCategory(text)) return false;
    }
    before = ',';
  }
  return text.empty();
}

// What could end a part, or the option of a mount that it becomes, is in none.
bool IsPart(std::string_view text) {
  return text.size() <= kMaxPart && std::ranges::all_of(text, [](char c) {
           return c > ' ' && c < 0x7f && c != ':' && c != '"' && c != ',';
         });
}

Result<void> CheckOptions(const model::SelinuxOptions& options) {
  if (!options.level.empty() && !IsLevel(options.level)) {
    return InvalidArgument(StrCat("the format of 'level' \"", options.level, "\" is not correct"));
  }
  const std::pair<const char*, const std::string*> parts[] = {
      {"user", &options.user}, {"role", &options.role}, {"type", &options.type}};
  for (const auto& [name, value] : parts) {
    if (!IsPart(*value)) {
      return InvalidArgument(
          StrCat("seLinuxOptions.", name, " \"", *value, "\": not a part of an SELinux label"));
    }
  }
  return {};
}

std::string Pair(uint32_t low, uint32_t high) { return StrCat("s0:c", low, ",c", high); }

}  // namespace

model::SelinuxContexts ParseSelinuxContexts(std::string_view text) {
  model::SelinuxContexts contexts;
  EachSetting(text, [&](std::string_view key, std::string_view value) {
    if (key == "process") contexts.process = value;
    if (key == "file") contexts.file = value;
  });
  return contexts;
}

std::string ParseSelinuxType(std::string_view config) {
  std::string type = "targeted";
  EachSetting(config, [&](std::string_view key, std::string_view value) {
    const bool is_name = !value.empty() && value[0] != '.' && !value.contains('/');
    if (key == "SELINUXTYPE" && is_name) type = value;
  });
  return type;
}

Result<std::string> ChooseSelinuxLevel(const model::SelinuxContexts& node,
                                       const model::SelinuxOptions& pod,
                                       const std::function<uint32_t()>& random,
                                       const std::function<bool(const std::string&)>& taken) {
  if (node.process.empty() || node.file.empty()) return std::string();
  RETURN_IF_ERROR(CheckOptions(pod));
  if (!pod.level.empty()) return pod.level;
  ASSIGN_OR_RETURN(const Label process, ParseLabel(node.process));
  if (process.level.empty()) return std::string();
  for (int i = 0; i < kRandomTries; ++i) {
    const uint32_t one = random() % kSelinuxCategories;
    const uint32_t other = random() % kSelinuxCategories;
    if (one == other) continue;
    std::string level = Pair(std::min(one, other), std::max(one, other));
    if (!taken(level)) return level;
  }
  for (uint32_t low = 0; low < kSelinuxCategories; ++low) {
    for (uint32_t high = low + 1; high < kSelinuxCategories; ++high) {
      std::string level = Pair(low, high);
      if (!taken(level)) return level;
    }
  }
  return Error(Code::kResourceExhausted, "every pair of SELinux categories is another pod's");
}

Result<model::SelinuxLabels> CompileSelinuxLabels(const model::SelinuxContexts& node,
                                                  const model::SelinuxOptions& asked,
                                                  const std::string& level, bool privileged) {
  RETURN_IF_ERROR(CheckOptions(asked));
  if (node.process.empty() || node.file.empty()) {
    if (asked == model::SelinuxOptions()) return model::SelinuxLabels();
    return Unsupported(
        "seLinuxOptions: the node's SELinux policy has no labels for containers (those of its "
        "contexts/lxc_contexts, lines process and file)");
  }
  ASSIGN_OR_RETURN(Label process, ParseLabel(node.process));
  ASSIGN_OR_RETURN(Label file, ParseLabel(node.file));
  const std::string& wanted = asked.level.empty() ? level : asked.level;
  if (wanted.empty() && !process.level.empty()) {
    // A pod that was made without SELinux stays without, as its files are.
    if (asked == model::SelinuxOptions()) return model::SelinuxLabels();
    return Unavailable(
        "seLinuxOptions: the pod was made when the node had no labels for containers");
  }
  if (!asked.user.empty()) process.user = file.user = asked.user;
  if (!asked.role.empty()) process.role = asked.role;
  if (!asked.type.empty()) process.type = asked.type;
  if (!wanted.empty()) process.level = file.level = wanted;
  return model::SelinuxLabels{privileged ? std::string() : process.Text(), file.Text()};
}

}  // namespace holdfast::runtime
