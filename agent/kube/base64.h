// SPDX-License-Identifier: Apache-2.0
// Base 64 with the standard alphabet and padding (RFC 4648 section 4). Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::agent::kube {

std::string EncodeBase64(std::string_view bytes);

// Line ends are skipped; absent when anything else is not of the alphabet or the padding is wrong.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace holdfast::agent::kube
