// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/short_names.h"

#include <fcntl.h>

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/pull/toml_read.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxRegistriesConf = 1 << 20;
constexpr size_t kMaxDropIns = 100;
constexpr size_t kMaxSearched = 20;

// What follows the repository: ":tag", "@digest", both or nothing.
size_t EndOfRepository(std::string_view text) {
  const size_t slash = text.rfind('/', text.find('@'));
  return std::min(text.size(),
                  text.find_first_of(":@", slash == std::string_view::npos ? 0 : slash));
}

bool IsBareShortName(const std::string& text) {
  return IsShortName(text) && EndOfRepository(text) == text.size() && ParseReference(text);
}

bool IsBareFullName(const std::string& text) {
  return !IsShortName(text) && EndOfRepository(text) == text.size() && ParseReference(text);
}

Result<std::vector<std::string>> ReadSearched(const toml::node& node) {
  constexpr char kKey[] = "unqualified-search-registries";
  if (!node.is_array()) return toml_read::At(node, StrCat(kKey, ": expected a list of hosts"));
  ASSIGN_OR_RETURN(std::vector<std::string> hosts, toml_read::Strings(node, kKey));
  if (hosts.size() > kMaxSearched) {
    return toml_read::At(node, StrCat(kKey, ": more than ", kMaxSearched));
  }
  for (const std::string& host : hosts) {
    if (host.find('/') == std::string::npos && IsBareFullName(host + "/a")) continue;
    return toml_read::At(
        node, StrCat(kKey, ": \"", host, "\" is no host: expected quay.io or registry:5000"));
  }
  return hosts;
}

Result<bool> ReadMode(const toml::node& node) {
  const auto* mode = node.as_string();
  const std::string name = mode == nullptr ? "" : mode->get();
  if (name == "enforcing") return true;
  // They differ in whether a person on a terminal is asked, which an agent does not have.
  if (name == "permissive" || name == "disabled") return false;
  return toml_read::At(node, "short-name-mode: expected enforcing, permissive or disabled");
}

Result<void> ReadAliases(const toml::node& node, std::map<std::string, std::string>& aliases) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return toml_read::At(node, "aliases: expected a table");
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    const auto* full = value.as_string();
    if (!IsBareShortName(name)) {
      return toml_read::At(
          value, StrCat("aliases: \"", name, "\" is no name without registry, tag and digest"));
    }
    if (full != nullptr && full->get().empty()) {  // takes back what an earlier file said
      aliases.erase(name);
      continue;
    }
    if (full == nullptr || !IsBareFullName(full->get())) {
      return toml_read::At(
          value, StrCat("aliases: \"", name,
                        "\" stands for no name with a registry and without tag and digest"));
    }
    aliases[name] = full->get();
  }
  return {};
}

// Names of <file>.d/*.conf in their order; none where there is no such directory.
Result<std::vector<std::string>> DropInsOf(const std::string& file) {
  const std::string directory = file + ".d";
  const auto opened = sys::OpenDirAt(AT_FDCWD, directory);
  if (!opened && opened.error().code() == Code::kNotFound) return std::vector<std::string>();
  if (!opened) return opened.error();
  ASSIGN_OR_RETURN(std::vector<std::string> names, sys::ListDirAt(opened->get(), "."));
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".conf"); });
  if (names.size() > kMaxDropIns) {
    return InvalidArgument(StrCat(directory, ": more than ", kMaxDropIns, " files"));
  }
  std::ranges::sort(names);
  for (std::string& name : names) name.insert(0, directory + "/");
  return names;
}

}  // namespace

Result<ShortNames> ShortNames::Read(const std::string& file) {
  ShortNames names;
  names.file_ = file;
  ASSIGN_OR_RETURN(std::vector<std::string> files, DropInsOf(file));
  files.insert(files.begin(), file);
  for (const std::string& each : files) {
    ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, each, kMaxRegistriesConf));
    RETURN_IF_ERROR(WithContext(names.Add(text), each));
  }
  return names;
}

Result<void> ShortNames::Add(std::string_view text) {
  ASSIGN_OR_RETURN(const toml::table root, toml_read::Parse(text));
  for (const auto& [key, node] : root) {
    if (key.str() == "unqualified-search-registries") {
      ASSIGN_OR_RETURN(searched_, ReadSearched(node));
    } else if (key.str() == "short-name-mode") {
      ASSIGN_OR_RETURN(enforcing_, ReadMode(node));
    } else if (key.str() == "aliases") {
      RETURN_IF_ERROR(ReadAliases(node, aliases_));
    } else {
      return toml_read::At(
          node, StrCat(std::string(key.str()),
                       ": not honoured: from this file only unqualified-search-registries, "
                       "short-name-mode and aliases are read; how registries are reached stands "
                       "in hosts.toml below registryConfigPath"));
    }
  }
  return {};
}

Result<std::vector<std::string>> ShortNames::Candidates(const std::string& text) const {
  if (!IsShortName(text)) return std::vector{text};
  const size_t end = EndOfRepository(text);
  const auto alias = aliases_.find(text.substr(0, end));
  if (alias != aliases_.end()) return std::vector{alias->second + text.substr(end)};
  if (!searched_) return std::vector{text};
  if (searched_->empty()) {
    return InvalidArgument(
        StrCat("short name \"", text, "\": ", file_,
               " has no alias for it and searches no registry: name the registry"));
  }
  if (enforcing_ && searched_->size() > 1) {
    return InvalidArgument(StrCat(
        "short name \"", text, "\": ", file_, " has no alias for it, searches ", searched_->size(),
        " registries, and short-name-mode is enforcing: name the registry"));
  }
  std::vector<std::string> names;
  for (const std::string& host : *searched_) names.push_back(StrCat(host, "/", text));
  return names;
}

}  // namespace holdfast::runtime
