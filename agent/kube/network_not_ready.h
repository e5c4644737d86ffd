// SPDX-License-Identifier: Apache-2.0
// In which words a kubelet tells that pods cannot be given a network: in events of pods and in the Ready condition. Pure.
#pragma once

#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {

// "" for "": all is well.
inline std::string NetworkNotReady(const std::string& because) {
  if (because.empty()) return "";
  return StrCat(
      "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
      "message:",
      because);
}

}  // namespace holdfast::agent::kube
