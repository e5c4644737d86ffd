// SPDX-License-Identifier: Apache-2.0
// What is asked over HTTP, and the head of an answer. Value types.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::runtime::http {

using Header = std::pair<std::string, std::string>;  // the name in lower case
using Headers = std::vector<Header>;

// The first of that name; "" when there is none.
inline std::string_view Find(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

constexpr uint64_t kDefaultBodyLimit = 16 << 20;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr size_t kHeaderLimit = 64 << 10;  // of one answer, all names and values
// What a peer may send of one body beyond what was consumed.
constexpr size_t kStreamWindow = 256 << 10;

struct Request {
  std::string method = "GET";
  std::string scheme = "https";
  std::string authority;  // "192.0.2.1:6443"
  std::string path = "/";
  Headers headers;
  std::string body;
  uint64_t body_limit = kDefaultBodyLimit;  // of the answer's body
};

struct ResponseHead {
  int status = 0;
  Headers headers;
};

}  // namespace holdfast::runtime::http
