// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/sysctl_names.h"

namespace holdfast::agent::kube {

std::string DottedSysctl(std::string_view name) {
  std::string out(name);
  const size_t first = out.find_first_of("./");
  if (first == std::string::npos || out[first] == '.') return out;
  for (char& c : out) c = c == '.' ? '/' : c == '/' ? '.' : c;
  return out;
}

std::string SysctlNamespace(std::string_view name) {
  if (name.starts_with("net.")) return "net";
  const bool ipc = name == "kernel.sem" || name.starts_with("kernel.shm") ||
                   name.starts_with("kernel.msg") || name.starts_with("fs.mqueue.");
  return ipc ? "ipc" : "";
}

}  // namespace holdfast::agent::kube
