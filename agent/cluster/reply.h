// SPDX-License-Identifier: Apache-2.0
// What an API server answered, as an ApiReply. Its errors are read by their Content-Type, never by what was asked for:
// whatever stands between may answer with its own. Pure; thread-safe. Source: control-plane.md 3.2, 3.10.
#pragma once

#include <string>
#include <string_view>

#include "agent/cluster/api.h"
#include "runtime/http/message.h"

namespace holdfast::agent {

// Whether `content_type` is `type`, with whatever parameters.
bool IsOfType(std::string_view content_type, std::string_view type);

// `message` of a refusal that is no Status: its first 200 bytes, printable.
ApiReply ToApiReply(const runtime::http::ResponseHead& head, std::string body);

}  // namespace holdfast::agent
