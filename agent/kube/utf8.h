// SPDX-License-Identifier: Apache-2.0
// UTF-8 checks. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::agent::kube {

// Length of the sequence that `text`, which is not empty, starts with; 0 when it is not valid
// (overlong, surrogate, beyond U+10FFFF, cut off).
size_t Utf8SequenceLength(std::string_view text);

// The beginning of `text`, at most `bytes`, that ends between two sequences.
std::string CutUtf8(std::string_view text, size_t bytes);

// Each byte that belongs to no valid sequence becomes U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// `rune`: a Unicode scalar value.
void AppendUtf8(uint32_t rune, std::string& out);

}  // namespace holdfast::agent::kube
