// SPDX-License-Identifier: Apache-2.0
// The one table of settings: name in the file, meaning, how a text becomes the value and back.
// Flags are the same names in kebab case. All of them are shown to whoever asks (ConfigJson): what
// is secret has no field here, but lies in a file that a field names.
#pragma once

#include <string>
#include <vector>

#include "agent/config/access.h"

namespace holdfast::agent::config {

struct Field {
  const char* name;   // "rootDir"
  const char* value;  // what --help calls the value: "DIR"
  const char* help;
  bool is_list = false;
  Access access;
  bool is_map = false;  // a list of "key=value" as a flag, a map in the file

  std::string Flag() const;  // "--root-dir"
};

const std::vector<Field>& Fields();

inline constexpr char kConfigApiVersion[] = "holdfast.dev/v1";
inline constexpr char kConfigKind[] = "AgentConfiguration";

}  // namespace holdfast::agent::config
