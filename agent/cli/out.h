// SPDX-License-Identifier: Apache-2.0
// What this program prints on stdout: all of it goes through here, so that a disk that is full or a
// reader that has gone is told instead of taken for success. Thread-safe.
#pragma once

#include <string_view>

namespace holdfast::agent::cli {

// Writes at once. False when this or an earlier write has failed: then nothing more is written, and
// a command that would go on and on should end.
bool Write(std::string_view text);

// The same where nothing is to be decided: a failure is told by FinishOutput().
void Print(std::string_view text);

// At the end of the program: `code`; or, after a write that failed, kFailed and a message.
int FinishOutput(int code);

}  // namespace holdfast::agent::cli
