// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/exec_plugin.h"

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<std::string> RunExecPlugin(const ExecPlugin& plugin, const std::string& info,
                                  const std::string& owner, const sys::Wakeup& stop,
                                  const ProgramLimits& limits) {
  BoundedProgram program{plugin.command, plugin.args, plugin.env, "", owner};
  program.env.emplace_back("KUBERNETES_EXEC_INFO", info);
  auto output = RunBounded(program, stop, limits);
  if (output) return output;
  const std::string hint =
      plugin.install_hint.empty() ? "" : StrCat(" (", plugin.install_hint, ")");
  return Error(output.error().code(),
               StrCat("exec plugin ", plugin.command, ": ", output.error().message(), hint));
}

}  // namespace holdfast::agent
