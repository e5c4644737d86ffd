// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kHexLength = 64;

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = ::EVP_MD_CTX_new();
  State() {
    // Fails only without memory or without SHA-256 in the library; neither can be worked around.
    if (context == nullptr || ::EVP_DigestInit_ex(context, ::EVP_sha256(), nullptr) != 1)
      std::abort();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ::EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view data) {
  ::EVP_DigestUpdate(state_->context, data.data(), data.size());
}

Digest Sha256::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  ::EVP_DigestFinal_ex(state_->context, bytes.data(), &size);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text(kPrefix);
  for (unsigned int i = 0; i < size; ++i) {
    text.push_back(kHex[bytes[i] >> 4]);
    text.push_back(kHex[bytes[i] & 15]);
  }
  return Digest(std::move(text));
}

Digest DigestOf(std::string_view data) {
  Sha256 hash;
  hash.Update(data);
  return hash.Finish();
}

Result<Digest> ParseDigest(std::string_view text) {
  if (!text.starts_with(kPrefix)) {
    return InvalidArgument(StrCat("digest \"", text.substr(0, 100), "\": only sha256 is known"));
  }
  const std::string_view hex = text.substr(kPrefix.size());
  if (hex.size() != kHexLength || !std::all_of(hex.begin(), hex.end(), IsLowerHex)) {
    return InvalidArgument(
        StrCat("digest \"", text.substr(0, 100), "\": not 64 lower-case hexadecimal digits"));
  }
  return Digest(std::string(text));
}

std::string HexOf(const Digest& digest) { return digest.value.substr(kPrefix.size()); }

Digest ChainId(const Digest& parent, const Digest& diff_id) {
  if (parent.empty()) return diff_id;
  return DigestOf(StrCat(parent.value, " ", diff_id.value));
}

}  // namespace holdfast::runtime
