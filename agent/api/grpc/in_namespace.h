// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace holdfast::agent::api {

// What a request names as namespace, "" being all of them, and that of an object.
inline bool InNamespace(const std::string& wanted, const std::string& actual) {
  return wanted.empty() || wanted == actual;
}

}  // namespace holdfast::agent::api
