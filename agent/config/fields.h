// SPDX-License-Identifier: Apache-2.0
// The one table of settings: name in the file, meaning, how a text becomes the value. Flags are the
// same names in kebab case.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"

namespace holdfast::agent {

struct Field {
  const char* name;   // "rootDir"
  const char* value;  // what --help calls the value: "DIR"
  const char* help;
  bool is_list = false;
  std::function<Result<void>(AgentConfig&, const std::vector<std::string>&)> set;
  bool is_map = false;  // a list of "key=value" as a flag, a map in the file

  std::string Flag() const;  // "--root-dir"
};

const std::vector<Field>& Fields();

}  // namespace holdfast::agent
