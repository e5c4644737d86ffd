// SPDX-License-Identifier: Apache-2.0
// A key and a certificate for it that is signed by itself, for servers whose clients do not verify them. Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

struct KeyPair {
  std::string chain_pem, key_pem;
};

// P-256, valid from an hour ago. `names`: DNS names and addresses; the first is the common name.
Result<KeyPair> MakeSelfSigned(const std::vector<std::string>& names, std::chrono::hours life);

// Whether the first certificate is valid now and `margin` from now, and `key_pem` is its key.
bool IsUsable(const KeyPair& pair, std::chrono::hours margin);

}  // namespace holdfast::agent
