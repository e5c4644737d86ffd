// SPDX-License-Identifier: Apache-2.0
// URLs of HTTP checks: how they are written, and where a redirect leads. Pure.
// Source: Kubernetes' probe/http/http.go (RedirectChecker), RFC 3986 section 5.
#pragma once

#include <optional>
#include <string>

#include "agent/probe/check.h"

namespace holdfast::agent {

// "http://10.0.0.1:80/healthz"
std::string UrlOf(const HttpCheck& check);
// What the Host header says.
std::string AuthorityOf(const HttpCheck& check);

bool IsRedirect(int status);
// Where `location`, which `from` answered, leads. nullopt: nowhere, or to another host than the one
// that `first` named; the answer is taken as it stands then.
std::optional<HttpCheck> FollowRedirect(const HttpCheck& first, const HttpCheck& from,
                                        const std::string& location);

// Whether it can stand in a header.
bool IsHeaderValue(const std::string& value);

}  // namespace holdfast::agent
