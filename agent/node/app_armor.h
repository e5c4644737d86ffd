// SPDX-License-Identifier: Apache-2.0
// DefaultAppArmor: the profile that containers are under which name none, in the kernel. Its text is this program's own.
// One thread at a time. Source: apparmor(7), apparmor_parser(8).
#pragma once

#include <functional>
#include <string>

#include "agent/pod/spec/node_environment.h"

namespace holdfast::agent {

inline constexpr char kDefaultAppArmorProfile[] = "holdfast-default";

// As a kubelet tells it: whether the kernel enforces AppArmor and shows its profiles.
bool HasAppArmor();

class DefaultAppArmor {
 public:
  // `log` is told once what keeps the profile away, and again when that is something else. `parser`: a path, or a name
  // to be looked for in PATH.
  explicit DefaultAppArmor(std::function<void(const std::string&)> log,
                           std::string parser = "apparmor_parser");

  // What the node offers now. Loads the profile the first time, for a former version's may be there, and whenever it is
  // gone; waits for the parser, 20 s at most.
  AppArmorOffer Keep();

 private:
  void Tell(const std::string& line);

  const std::function<void(const std::string&)> log_;
  const std::string parser_;
  bool loaded_ = false;  // by this object
  std::string told_;
};

}  // namespace holdfast::agent
