// SPDX-License-Identifier: Apache-2.0
// The kubeconfig that is written once a bootstrap is done: a kubelet's names, the server of the bootstrap file, and the
// path of the certificate that follows renewals. Pure.
#pragma once

#include <string>

#include "agent/cluster/kubeconfig.h"

namespace holdfast::agent {

// YAML. `bootstrap`: whose cluster it is; `certificate_path`: a file with the certificate and its key.
std::string KubeConfigText(const KubeConfig& bootstrap, const std::string& certificate_path);

}  // namespace holdfast::agent
