// SPDX-License-Identifier: Apache-2.0
// Files of variables that a container of the pod wrote for others (fileKeyRef): NAME='value', one after the other, the
// value in single quotes and as it stands, newlines too; comments and empty lines. Pure. Source: kubelet 1.36 (env files, KEP 3721).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// The value of the first variable of that name; "" when it has none, or no value. kInvalidArgument for what is wrong before
// it comes, with its line.
Result<std::string> ValueInEnvFile(std::string_view text, std::string_view name);

}  // namespace holdfast::agent
