// SPDX-License-Identifier: Apache-2.0
// Logging of the agent: one line per message on stderr, with priorities the journal understands.
#pragma once

#include <string>

namespace holdfast::agent {

// `level`: trace, debug, info, warn, error. Once, before the first message.
void SetUpLogging(const std::string& level);

}  // namespace holdfast::agent
