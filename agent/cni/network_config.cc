// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/network_config.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cni {
namespace {

constexpr size_t kConfigBytes = 1 << 20;
constexpr size_t kMostPlugins = 32;
constexpr size_t kLongestName = 128;
// Ascending. Results of older ones have another form.
constexpr std::array<std::string_view, 5> kVersions = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};

// A name that becomes part of a path: of a network, of a plugin's program.
bool IsName(const std::string& name) {
  const auto is_alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return !name.empty() && name.size() <= kLongestName && is_alnum(name.front()) &&
         std::ranges::all_of(
             name, [&](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; });
}

size_t Rank(std::string_view version) {
  return static_cast<size_t>(std::ranges::find(kVersions, version) - kVersions.begin());
}

// true, false, or these as text, as libcni takes them.
Result<bool> FlagOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (found->is_string()) {
    const std::string text = ToLower(found->get<std::string>());
    if (text == "true" || text == "false") return text == "true";
  }
  return InvalidArgument(StrCat(key, " is neither true nor false"));
}

Result<void> CheckPlugin(const Json& plugin) {
  if (!plugin.is_object()) return InvalidArgument("a plugin is no JSON object");
  ASSIGN_OR_RETURN(const std::string type, TextOf(plugin, "type"));
  if (type.empty()) return InvalidArgument("missing 'type'");
  if (!IsName(type)) {
    return InvalidArgument(StrCat("type \"", type, "\" cannot be a program's name"));
  }
  const auto capabilities = plugin.find("capabilities");
  if (capabilities == plugin.end()) return {};
  const bool all_flags =
      capabilities->is_object() &&
      std::ranges::all_of(*capabilities, [](const Json& one) { return one.is_boolean(); });
  if (all_flags) return {};
  return InvalidArgument(StrCat("plugin ", type, ": capabilities is no map to true and false"));
}

Result<void> ReadVersions(const Json& json, NetworkConfig& network) {
  ASSIGN_OR_RETURN(const std::string one, TextOf(json, "cniVersion"));
  std::vector<std::string> wanted;
  if (!one.empty()) wanted.push_back(one);
  if (const auto list = json.find("cniVersions"); list != json.end()) {
    if (!list->is_array()) return InvalidArgument("cniVersions is no list");
    for (const Json& version : *list) {
      if (!version.is_string()) return InvalidArgument("cniVersions has something else than texts");
      wanted.push_back(version.get<std::string>());
    }
  }
  if (wanted.empty()) return InvalidArgument(StrCat("no cniVersion; one of ", KnownVersions()));
  for (size_t i = kVersions.size(); i-- > 0;) {
    if (std::ranges::find(wanted, kVersions[i]) != wanted.end()) {
      network.versions.emplace_back(kVersions[i]);
    }
  }
  if (network.versions.empty()) {
    return InvalidArgument(
        StrCat("cniVersion \"", wanted.front(), "\" is none of ", KnownVersions()));
  }
  network.version = network.versions.front();
  return {};
}

Result<NetworkConfig> BeginNetwork(const Json& json) {
  NetworkConfig network;
  ASSIGN_OR_RETURN(network.name, TextOf(json, "name"));
  if (network.name.empty()) return InvalidArgument("no name");
  if (!IsName(network.name)) {
    return InvalidArgument(StrCat("name \"", network.name, "\" is no name of a network"));
  }
  RETURN_IF_ERROR(ReadVersions(json, network));
  return network;
}

std::string_view Extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot);
}

bool IsFile(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode);
}

// By name.
Result<std::vector<std::string>> FilesOf(const std::string& directory,
                                         std::initializer_list<std::string_view> extensions) {
  auto names = sys::ListDirAt(AT_FDCWD, directory);
  if (!names && names.error().code() == Code::kNotFound) return std::vector<std::string>();
  RETURN_IF_ERROR(names);
  std::vector<std::string> files;
  for (const std::string& name : *names) {
    if (std::ranges::find(extensions, Extension(name)) == extensions.end()) continue;
    if (IsFile(StrCat(directory, "/", name))) files.push_back(StrCat(directory, "/", name));
  }
  return files;
}

Result<std::string> ReadConfig(const std::string& file) {
  return sys::ReadFileAt(AT_FDCWD, file, kConfigBytes);
}

// <directory>/<name of the network>/*.conf, one plugin each.
Result<std::vector<Json>> PluginsOfFolder(const std::string& directory, const std::string& text) {
  std::vector<Json> plugins;
  ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  ASSIGN_OR_RETURN(const std::string name, TextOf(json, "name"));
  if (!IsName(name)) return plugins;  // it is told when the list is parsed
  ASSIGN_OR_RETURN(const auto files, FilesOf(StrCat(directory, "/", name), {".conf"}));
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string content, ReadConfig(file));
    ASSIGN_OR_RETURN(Json plugin, WithContext(ParseObject(content), file));
    RETURN_IF_ERROR(WithContext(CheckPlugin(plugin), file));
    plugins.push_back(std::move(plugin));
  }
  return plugins;
}

Result<NetworkConfig> ReadNetwork(const std::string& directory, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadConfig(file));
  if (Extension(file) != ".conflist") return ParseSinglePlugin(text);
  ASSIGN_OR_RETURN(std::vector<Json> more, PluginsOfFolder(directory, text));
  return ParseNetworkList(text, std::move(more));
}

}  // namespace

std::string TypeOf(const Json& plugin) { return plugin.at("type").get<std::string>(); }

bool Declares(const NetworkConfig& network, const std::string& capability) {
  return std::ranges::any_of(network.plugins, [&](const Json& plugin) {
    return plugin.contains("capabilities") && plugin.at("capabilities").value(capability, false);
  });
}

Result<NetworkConfig> ParseNetworkList(const std::string& text, std::vector<Json> more) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  ASSIGN_OR_RETURN(NetworkConfig network, BeginNetwork(json));
  ASSIGN_OR_RETURN(network.disable_check, FlagOf(json, "disableCheck"));
  ASSIGN_OR_RETURN(network.disable_gc, FlagOf(json, "disableGC"));
  ASSIGN_OR_RETURN(const bool only_inlined, FlagOf(json, "loadOnlyInlinedPlugins"));
  if (const auto plugins = json.find("plugins"); plugins != json.end()) {
    if (!plugins->is_array()) return InvalidArgument("plugins is no list");
    for (const Json& plugin : *plugins) {
      RETURN_IF_ERROR(CheckPlugin(plugin));
      network.plugins.push_back(plugin);
    }
  }
  if (!only_inlined) {
    for (Json& plugin : more) network.plugins.push_back(std::move(plugin));
  }
  if (network.plugins.empty()) return InvalidArgument("no plugins");
  if (network.plugins.size() > kMostPlugins) {
    return InvalidArgument(StrCat("more than ", kMostPlugins, " plugins"));
  }
  return network;
}

Result<NetworkConfig> ParseSinglePlugin(const std::string& text) {
  ASSIGN_OR_RETURN(Json json, ParseObject(text));
  RETURN_IF_ERROR(CheckPlugin(json));
  ASSIGN_OR_RETURN(NetworkConfig network, BeginNetwork(json));
  network.plugins.push_back(std::move(json));
  return network;
}

Result<LoadedNetwork> LoadNetwork(const std::string& directory) {
  ASSIGN_OR_RETURN(const auto files, FilesOf(directory, {".conflist", ".conf", ".json"}));
  if (files.empty()) return NotFound(StrCat("no network config found in ", directory));
  const std::string& file = files.front();
  auto network = ReadNetwork(directory, file);
  if (!network) {
    return Error(Code::kInvalidArgument,
                 StrCat("network config ", file, ": ", network.error().message()));
  }
  return LoadedNetwork{file, std::move(*network)};
}

bool IsAtLeast(const std::string& version, const std::string& least) {
  return Rank(version) >= Rank(least);
}

std::string KnownVersions() { return Join(kVersions, ", "); }

bool IsKnownVersion(const std::string& version) { return Rank(version) < kVersions.size(); }

}  // namespace holdfast::agent::cni
