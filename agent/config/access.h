// SPDX-License-Identifier: Apache-2.0
// How one setting gets into an AgentConfig and out of it again: what get() gives, set() takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "agent/config/agent_config.h"

namespace holdfast::agent::config {

// Where a value lies in an AgentConfig.
template <class Value>
struct Place {
  std::function<Value&(AgentConfig&)> of;
  std::function<const Value&(const AgentConfig&)> read;
};

// At(&AgentConfig::proxy, &ProxyConfig::mode) is config.proxy.mode.
template <class... Members>
auto At(Members... members) {
  using Value = std::remove_reference_t<decltype((std::declval<AgentConfig&>().*....*members))>;
  return Place<Value>{[=](AgentConfig& c) -> Value& { return (c.*....*members); },
                      [=](const AgentConfig& c) -> const Value& { return (c.*....*members); }};
}

struct Access {
  // One text, or those of a list; of a map "key=value". The error says what is wrong with it.
  std::function<Result<void>(AgentConfig&, const std::vector<std::string>&)> set;
  // As it stands in the configuration file.
  std::function<nlohmann::json(const AgentConfig&)> get;
};

Access Text(Place<std::string> place);
// An absolute path without "." and ".."; the slash at the end is dropped.
Access Path(Place<std::string> place);
// The same, or "".
Access PathOrNone(Place<std::string> place);
Access List(Place<std::vector<std::string>> place);
Access OneOf(Place<std::string> place, const std::vector<std::string>& allowed);
Access Bool(Place<bool> place);
Access BindAddress(Place<std::string> place);
Access Number(Place<uint32_t> place, uint32_t least, uint32_t most);
Access Number(Place<int64_t> place, int64_t least, int64_t most);
Access Size(Place<uint64_t> place);
Access Share(Place<double> place);  // above 0, at most 1
Access Amounts(Place<NodeAmounts> place);
// Of a kubelet's signals: shares ("15%") or numbers, and times.
Access Amounts(Place<SignalAmounts> place);
Access Durations(Place<std::map<PressureSignal, std::chrono::seconds>> place);
// The labels of the node, "key=value": syntax, and no name that is Kubernetes' own.
Access NodeLabels();
// "key=value:Effect", with or without the value, as kubectl taint takes them; no key and effect twice.
Access NodeTaints();
// Patterns of sysctls that have a value per network or ipc namespace.
Access UnsafeSysctls();
// Names of handlers, none twice.
Access RuntimeHandlers();
Access Enforced();  // a kubelet's list of what is enforced
Access Duration(Place<std::chrono::seconds> place, int64_t least, int64_t most);

}  // namespace holdfast::agent::config
