// SPDX-License-Identifier: Apache-2.0
// Answers to a request for a stream, in HTTP/1.1. On the connection's executor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

using HeaderLines = std::vector<std::pair<std::string, std::string>>;

// The whole answer, and the connection's end.
void Answer(UpgradedConnection connection, unsigned status, const std::string& type,
            std::string body, const HeaderLines& headers = {});

// 101; `then` gets the connection once it is written, nobody when it cannot be.
void SwitchProtocols(UpgradedConnection connection, const HeaderLines& headers,
                     std::function<void(UpgradedConnection)> then);

}  // namespace holdfast::agent::streams
