// SPDX-License-Identifier: Apache-2.0
// The node's own logins: docker's configuration where a kubelet looks for it. Read for every pull,
// since it is small and may change. Thread-safe: no state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/images/keyring.h"

namespace holdfast::agent {

// The first of these that is there counts: config.json below rootDir, ~/.docker, /.docker; then
// .dockercfg below rootDir, ~ and /.
std::vector<std::string> NodeLoginFiles(const std::string& root_dir, const std::string& home);

// `log` is told of a file that cannot be used, by its name; the pull goes on without.
Keyring ReadNodeLogins(const std::vector<std::string>& files,
                       const std::function<void(const std::string&)>& log);

}  // namespace holdfast::agent
