// SPDX-License-Identifier: Apache-2.0
// Distinct string types for the identities that are easily mixed up.
#pragma once

#include <sys/random.h>

#include <array>
#include <compare>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast {

template <class Tag>
struct StrongString {
  std::string value;

  StrongString() = default;
  explicit StrongString(std::string v) : value(std::move(v)) {}
  bool empty() const { return value.empty(); }
  auto operator<=>(const StrongString&) const = default;
  friend std::ostream& operator<<(std::ostream& os, const StrongString& s) { return os << s.value; }
};

using PodUid = StrongString<struct PodUidTag>;            // metadata.uid, or the hash of a manifest
using ContainerId = StrongString<struct ContainerIdTag>;  // 64 lower-case hex digits
using Digest = StrongString<struct DigestTag>;            // "sha256:" and 64 lower-case hex digits

// 64 random hex digits, the form that crictl, podman and docker users know.
inline ContainerId NewContainerId() {
  std::array<unsigned char, 32> bytes{};
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (n > 0) filled += static_cast<size_t>(n);
  }
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (unsigned char b : bytes) {
    text.push_back(kHex[b >> 4]);
    text.push_back(kHex[b & 15]);
  }
  return ContainerId(std::move(text));
}

}  // namespace holdfast

template <class Tag>
struct std::hash<holdfast::StrongString<Tag>> {
  size_t operator()(const holdfast::StrongString<Tag>& s) const noexcept {
    return std::hash<std::string>{}(s.value);
  }
};
