// SPDX-License-Identifier: Apache-2.0
// What a socket in the registration directory says it is. Each call blocks for some seconds at most. Thread-safe: no
// state. Source: a kubelet's pluginregistration.Registration.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

struct PluginInfo {
  std::string type;  // "CSIPlugin", "DevicePlugin", …
  std::string name;
  std::string endpoint;  // its socket; "" is the one that was asked
  std::vector<std::string> versions;
};

Result<PluginInfo> AskPlugin(const std::string& socket, const std::atomic<bool>* cancelled);
// `problem` "" says that it is registered.
Result<void> TellPlugin(const std::string& socket, const std::string& problem,
                        const std::atomic<bool>* cancelled);

}  // namespace holdfast::agent
