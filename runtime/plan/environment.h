// SPDX-License-Identifier: Apache-2.0
// The environment a process gets. Pure.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

struct EnvironmentDefaults {
  std::string hostname;  // "" sets none
  std::string home;
  bool tty = false;
};

// PATH, HOSTNAME and (with tty) TERM come first and `env` overrides them; HOME only where `env` has
// none. The last of equal names wins at the place of the first. An entry without a name or without
// "=" is left out (images carry such); kInvalidArgument for a NUL byte.
Result<std::vector<std::string>> CompileEnvironment(const std::vector<std::string>& env,
                                                    const EnvironmentDefaults& defaults);

}  // namespace holdfast::runtime
