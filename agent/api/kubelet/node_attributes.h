// SPDX-License-Identifier: Apache-2.0
// What right a request of the node's HTTPS API needs: a verb on one of the node's sub-resources. Pure.
// Source: control-plane.md 7.2; a kubelet's pkg/kubelet/server/auth.go.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::api {

// Any one of them permits the request; tried in this order. `path` without its query.
std::vector<std::string> SubresourcesOf(std::string_view path);

// "get", "create", …; "" for what no right is named for. A kubelet asks for "get" when somebody executes a program
// through a WebSocket, which many may who only watch; here programs and ports always need "create".
std::string VerbOf(std::string_view method, std::string_view path);

// Whether what follows is no request but a session: exec, attach, portForward, run.
bool IsSession(std::string_view path);

}  // namespace holdfast::agent::api
