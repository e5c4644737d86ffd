// SPDX-License-Identifier: Apache-2.0
// Names of archive members, as untrusted as anything: cleaned to relative paths or refused.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::runtime::unpack {

// "a/b/c" from "./a//b/c/", "/a/b/c" …; "" for the root itself ("", ".", "/", "./").
// kInvalidArgument for a ".." part, a part above 255 bytes, more than 1,024 parts, above 4,095
// bytes in all, or a NUL byte.
Result<std::string> CleanMemberName(std::string_view raw);

// The parent ("" for the root) and the last part of a clean name.
std::string_view ParentOf(std::string_view clean);
std::string_view LeafOf(std::string_view clean);

// A name as it may appear in a message: control bytes as \xNN, cut after 200 bytes.
std::string Printable(std::string_view raw);

}  // namespace holdfast::runtime::unpack
