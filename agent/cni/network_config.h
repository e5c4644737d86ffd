// SPDX-License-Identifier: Apache-2.0
// NetworkConfig: what a file of the configuration directory says: a network's name and its chain of plugins.
// Source: CNI specification 1.1, section 1.
#pragma once

#include <string>
#include <vector>

#include "agent/cni/json_text.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cni {

struct NetworkConfig {
  std::string name;
  std::vector<std::string>
      versions;         // that may be spoken, of those that we know, the highest first
  std::string version;  // that is spoken with its plugins
  bool disable_check = false;
  bool disable_gc = false;
  std::vector<Json> plugins;  // each as written, with a `type`
  bool operator==(const NetworkConfig&) const = default;
};

std::string TypeOf(const Json& plugin);
// Whether a plugin of the network asks for `capability`.
bool Declares(const NetworkConfig& network, const std::string& capability);

// Of a .conflist; its `version` is the highest. kInvalidArgument says what is wrong and names no file.
// `more`: plugins of the folder beside it, which come after its own unless it says loadOnlyInlinedPlugins.
Result<NetworkConfig> ParseNetworkList(const std::string& text, std::vector<Json> more = {});
// Of a .conf or .json: one plugin.
Result<NetworkConfig> ParseSinglePlugin(const std::string& text);

// The first of *.conflist, *.conf and *.json of `directory`, by name.
struct LoadedNetwork {
  std::string file;
  NetworkConfig network;
};
// kNotFound where there is none; kInvalidArgument names the file that cannot be used: no other one is taken instead.
Result<LoadedNetwork> LoadNetwork(const std::string& directory);

// At least 1.1.0, for instance. Both as in `versions`.
bool IsAtLeast(const std::string& version, const std::string& least);
// "0.3.0, 0.3.1, …": for messages.
std::string KnownVersions();
bool IsKnownVersion(const std::string& version);

}  // namespace holdfast::agent::cni
