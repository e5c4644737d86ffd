// SPDX-License-Identifier: Apache-2.0
// Kinds of characters in formats that are ASCII. The C library's functions ask the locale, and do not
// take a negative char.
#pragma once

namespace holdfast {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool IsLowerOrDigit(char c) { return IsLower(c) || IsDigit(c); }
constexpr bool IsAlphanumeric(char c) { return IsLowerOrDigit(c) || IsUpper(c); }

}  // namespace holdfast
