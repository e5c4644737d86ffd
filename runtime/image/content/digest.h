// SPDX-License-Identifier: Apache-2.0
// SHA-256 digests of content. File names in the store come only from digests computed or checked
// here, never from a string of an image.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::runtime {

// Running SHA-256. Single-thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::string_view data);
  // The digest of everything so far; the object is used up.
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest DigestOf(std::string_view data);

// "sha256:" and 64 lower-case hex digits, nothing else; kInvalidArgument names what is wrong.
Result<Digest> ParseDigest(std::string_view text);

// The 64 hex digits of a checked digest.
std::string HexOf(const Digest& digest);

// OCI chain id of a layer on top of `parent` (empty for the lowest).
Digest ChainId(const Digest& parent, const Digest& diff_id);

}  // namespace holdfast::runtime
