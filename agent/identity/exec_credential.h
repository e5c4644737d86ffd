// SPDX-License-Identifier: Apache-2.0
// What is said to a program that makes credentials, and what it says: ExecCredential, versions v1 and v1beta1. Pure;
// thread-safe; the program's output is untrusted. Source: client.authentication.k8s.io.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// A token, or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string certificate_pem, key_pem;
  std::optional<WallTime> expires;  // absent: good until it is refused
};

// The variable KUBERNETES_EXEC_INFO. `authority_pem`: of the cluster, "" for none. `config.exec` is there.
std::string ExecInfo(const KubeConfig& config, const std::string& authority_pem);

// kInvalidArgument says what is wrong with the output.
Result<ExecCredential> ParseExecCredential(std::string_view output, const ExecPlugin& plugin);

}  // namespace holdfast::agent
