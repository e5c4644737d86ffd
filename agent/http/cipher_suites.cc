// SPDX-License-Identifier: Apache-2.0
#include "agent/http/cipher_suites.h"

#include <algorithm>
#include <iterator>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

struct Suite {
  const char* name;
  const char* openssl;  // "": of TLS 1.3
};
// Go's crypto/tls.CipherSuites() without those that Go itself calls insecure.
constexpr Suite kSuites[] = {
    {"TLS_AES_128_GCM_SHA256", ""},
    {"TLS_AES_256_GCM_SHA384", ""},
    {"TLS_CHACHA20_POLY1305_SHA256", ""},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
};

}  // namespace

Result<std::string> CipherList(const std::vector<std::string>& suites) {
  std::string list;
  for (const std::string& name : suites) {
    const auto* const found = std::find_if(std::begin(kSuites), std::end(kSuites),
                                           [&](const Suite& suite) { return suite.name == name; });
    if (found == std::end(kSuites)) {
      return InvalidArgument(StrCat("tlsCipherSuites: \"", name, "\" is not known or not safe"));
    }
    if (*found->openssl != 0) list += StrCat(list.empty() ? "" : ":", found->openssl);
  }
  return list;
}

}  // namespace holdfast::agent
