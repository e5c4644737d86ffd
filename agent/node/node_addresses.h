// SPDX-License-Identifier: Apache-2.0
// The node's own addresses as pods and users see them.
#pragma once

#include <string>
#include <vector>

namespace holdfast::agent {

// The source addresses of the default routes, IPv4 first; without any, the first address that is no
// loopback and on no interface beginning with `own_prefix`; "127.0.0.1" when there is none at all.
std::vector<std::string> NodeAddresses(const std::string& own_prefix);

}  // namespace holdfast::agent
