// SPDX-License-Identifier: Apache-2.0
// Logging of the agent: one line per message on stderr, with priorities the journal understands.
// Control characters and what is no UTF-8 are escaped (base/printable.h), so that no text out of an
// image or a manifest begins a line, has a priority of its own, or commands a terminal.
#pragma once

#include <string>

namespace holdfast::agent {

// `level`: trace, debug, info, warn, error. Once, before the first message.
void SetUpLogging(const std::string& level);

}  // namespace holdfast::agent
