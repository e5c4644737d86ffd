// SPDX-License-Identifier: Apache-2.0
// Runs a program that makes credentials for an API server. It gets nothing to read but a variable.
// Source: client.authentication.k8s.io.
#pragma once

#include <string>

#include "agent/base/bounded_program.h"
#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

// What it wrote to its standard output, as RunBounded. `info` is KUBERNETES_EXEC_INFO, `owner` the BoundedProgram's.
// Errors have the hint how to install it.
Result<std::string> RunExecPlugin(const ExecPlugin& plugin, const std::string& info,
                                  const std::string& owner, const sys::Wakeup& stop,
                                  const ProgramLimits& limits = {});

}  // namespace holdfast::agent
