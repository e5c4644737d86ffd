// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/csi_names.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

std::string Sha256Hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  // Fails only without memory or without SHA-256 in the library; neither can be worked around.
  if (::EVP_Digest(text.data(), text.size(), digest.data(), &size, ::EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  constexpr char kHexDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kHexDigits[digest[i] >> 4u];
    hex += kHexDigits[digest[i] & 15u];
  }
  return hex;
}

}  // namespace

std::string AttachmentName(const std::string& driver, const std::string& handle,
                           const std::string& node) {
  return "csi-" + Sha256Hex(StrCat(handle, driver, node));
}

std::string UniqueVolumeName(const std::string& driver, const std::string& handle) {
  return StrCat("kubernetes.io/csi/", driver, "^", handle);
}

std::string EphemeralHandle(const std::string& pod_uid, const std::string& volume) {
  return "csi-" + Sha256Hex(pod_uid + volume);
}

std::string HandleDirectory(const std::string& handle) { return Sha256Hex(handle); }

}  // namespace holdfast::agent::kube
