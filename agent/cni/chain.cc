// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/chain.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "agent/cni/add_result.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent::cni {
namespace {

// One name and one version for the whole chain.
Json ConfigOf(const NetworkConfig& network, const Json& plugin) {
  Json config = plugin;
  config["name"] = network.name;
  config["cniVersion"] = network.version;
  return config;
}

Json ConfigFor(const NetworkConfig& network, const Json& plugin, const Attached& attached,
               const Json& previous) {
  Json config = ConfigOf(network, plugin);
  if (!previous.is_null()) config["prevResult"] = previous;
  Json shown = Json::object();
  if (const auto declared = plugin.find("capabilities"); declared != plugin.end()) {
    for (const auto& [name, wanted] : declared->items()) {
      if (wanted.get<bool>() && attached.capabilities.contains(name)) {
        shown[name] = attached.capabilities.at(name);
      }
    }
  }
  if (!shown.empty()) config["runtimeConfig"] = std::move(shown);
  return config;
}

// By its code, or as to containerd by its words: what was to be deleted is not there.
bool IsGone(const Error& error, const PluginTarget& target) {
  if (error.code() == Code::kNotFound) return true;
  const auto says = [&](const char* words) {
    return error.message().find(words) != std::string::npos;
  };
  return says("not found") || (target.netns.empty() && says("no such file or directory"));
}

}  // namespace

Result<Json> Add(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                 Deadline deadline) {
  Json result;
  for (const Json& plugin : network.plugins) {
    const Json config = ConfigFor(network, plugin, attached, result);
    ASSIGN_OR_RETURN(const std::string output,
                     plugins.Run("ADD", config, attached.target, deadline));
    auto read = ReadAddResult(output, network.version);
    if (!read) {
      return std::move(read.error())
          .Wrap(StrCat("plugin type=\"", TypeOf(plugin), "\" failed (add)"));
    }
    result = std::move(*read);
    HOLDFAST_PAUSE_POINT("cni.add.plugin_done");
  }
  return result;
}

Result<void> Del(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                 const Json& result, Deadline deadline) {
  const Json previous = IsAtLeast(network.version, "0.4.0") ? result : Json();
  for (const Json& plugin : std::views::reverse(network.plugins)) {
    const Json config = ConfigFor(network, plugin, attached, previous);
    auto done = plugins.Run("DEL", config, attached.target, deadline);
    if (!done && !IsGone(done.error(), attached.target)) return std::move(done.error());
    HOLDFAST_PAUSE_POINT("cni.del.plugin_done");
  }
  return {};
}

Result<void> Check(const Plugins& plugins, const NetworkConfig& network, const Attached& attached,
                   const Json& result, Deadline deadline) {
  if (network.disable_check || !IsAtLeast(network.version, "0.4.0")) return {};
  for (const Json& plugin : network.plugins) {
    const Json config = ConfigFor(network, plugin, attached, result);
    RETURN_IF_ERROR(plugins.Run("CHECK", config, attached.target, deadline));
  }
  return {};
}

Result<void> Status(const Plugins& plugins, const NetworkConfig& network, Deadline deadline) {
  if (!IsAtLeast(network.version, "1.1.0")) return {};
  for (const Json& plugin : network.plugins) {
    RETURN_IF_ERROR(plugins.Run("STATUS", ConfigOf(network, plugin), {}, deadline));
  }
  return {};
}

Result<void> GarbageCollect(const Plugins& plugins, const NetworkConfig& network,
                            const std::vector<ValidAttachment>& valid, Deadline deadline) {
  if (network.disable_gc || !IsAtLeast(network.version, "1.1.0")) return {};
  Json list = Json::array();
  for (const ValidAttachment& one : valid) {
    list.push_back({{"containerID", one.container_id}, {"ifname", one.interface}});
  }
  std::optional<Error> first;
  for (const Json& plugin : network.plugins) {
    Json config = ConfigOf(network, plugin);
    config["cni.dev/valid-attachments"] = list;
    auto done = plugins.Run("GC", config, {}, deadline);
    if (!done && !first) first = std::move(done.error());
  }
  if (first) return std::move(*first);
  return {};
}

Result<std::string> AgreeOnVersion(const Plugins& plugins, const NetworkConfig& network,
                                   Deadline deadline) {
  std::vector<std::string> left = network.versions;
  std::set<std::string> asked;
  for (const Json& plugin : network.plugins) {
    const std::string type = TypeOf(plugin);
    if (!asked.insert(type).second) continue;
    ASSIGN_OR_RETURN(const auto spoken, plugins.Versions(type, deadline));
    const auto is_foreign = [&](const std::string& version) {
      return std::ranges::find(spoken, version) == spoken.end();
    };
    std::erase_if(left, is_foreign);
    if (left.empty()) {
      return Unsupported(StrCat("plugin type=\"", type, "\" does not speak cniVersion ",
                                network.versions.front(), " of network \"", network.name, "\""));
    }
  }
  return left.front();
}

}  // namespace holdfast::agent::cni
