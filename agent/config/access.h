// SPDX-License-Identifier: Apache-2.0
// How one setting gets into an AgentConfig and out of it again: what get() gives, set() takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"

namespace holdfast::agent {

struct Access {
  // One text, or those of a list; of a map "key=value". The error says what is wrong with it.
  std::function<Result<void>(AgentConfig&, const std::vector<std::string>&)> set;
  // As it stands in the configuration file.
  std::function<nlohmann::json(const AgentConfig&)> get;
};

Access Text(std::string AgentConfig::* member);
Access Text(std::string model::Instance::* member);
// An absolute path without "." and ".."; the slash at the end is dropped.
Access Path(std::string model::Instance::* member);
Access List(std::vector<std::string> AgentConfig::* member);
Access List(std::vector<std::string> model::Instance::* member);
Access OneOf(std::string AgentConfig::* member, std::vector<std::string> allowed);
Access Bool(bool AgentConfig::* member);
Access BindAddress(std::string AgentConfig::* member);
Access Number(uint32_t AgentConfig::* member, uint32_t least, uint32_t most);
Access Number(int64_t AgentConfig::* member, int64_t least, int64_t most);
Access Size(uint64_t AgentConfig::* member);
Access Amounts(NodeAmounts AgentConfig::* member);
Access Reserve(model::DiskReserve AgentConfig::* member);
// The labels of the node, "key=value": syntax, and no name that is Kubernetes' own.
Access NodeLabels();
// Patterns of sysctls that have a value per network or ipc namespace.
Access UnsafeSysctls();
Access Enforced();  // a kubelet's list of what is enforced
Access Duration(std::chrono::seconds AgentConfig::* member, int64_t least, int64_t most);

}  // namespace holdfast::agent
