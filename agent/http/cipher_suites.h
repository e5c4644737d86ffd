// SPDX-License-Identifier: Apache-2.0
// Cipher suites as Kubernetes names them ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", Go's and IANA's names) and as OpenSSL
// does. Pure.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// For SSL_CTX_set_cipher_list(3); "" when only suites of TLS 1.3 are named, which cannot be chosen from, as in Go.
// kInvalidArgument for a name that is not known.
Result<std::string> CipherList(const std::vector<std::string>& suites);

}  // namespace holdfast::agent
