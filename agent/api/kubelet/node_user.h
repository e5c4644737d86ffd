// SPDX-License-Identifier: Apache-2.0
// NodeUser: who asks something of the node's HTTPS API. Plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace holdfast::agent::api {

struct NodeUser {
  std::string name, uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
  bool operator==(const NodeUser&) const = default;
};

}  // namespace holdfast::agent::api
