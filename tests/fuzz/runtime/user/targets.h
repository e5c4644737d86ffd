// SPDX-License-Identifier: Apache-2.0
// Who an image says its containers run as.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

// The image's USER, its /etc/passwd and its /etc/group, with a NUL between them.
void FuzzUserFiles(std::string_view input);

}  // namespace holdfast::fuzz
