// SPDX-License-Identifier: Apache-2.0
// SELinux labels as values: "user:role:type:level", the last part only where the policy has levels.
#pragma once

#include <string>

namespace holdfast::model {

// seLinuxOptions of a pod or a container. "" asks for nothing.
struct SelinuxOptions {
  std::string user;
  std::string role;
  std::string type;
  std::string level;  // "s0:c1,c2"
  bool operator==(const SelinuxOptions&) const = default;
};

// Labels that the node's policy has for containers that ask for nothing. "": it has none.
struct SelinuxContexts {
  std::string process;
  std::string file;
  bool operator==(const SelinuxContexts&) const = default;
};

// What one container gets. "": its processes stay under the launcher's label; nothing is labelled.
struct SelinuxLabels {
  std::string process;
  std::string mount;  // of all that is mounted or made for it
  bool operator==(const SelinuxLabels&) const = default;
};

}  // namespace holdfast::model
