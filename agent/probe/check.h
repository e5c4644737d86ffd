// SPDX-License-Identifier: Apache-2.0
// A check: one try of a handler (of a probe or a hook), with everything it needs, and what came of
// it. Value types.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/base/ids.h"

namespace holdfast::agent {

// Of what a program says, or of the body of an answer, no more is kept.
inline constexpr size_t kCheckOutput = 10 * 1024;

struct ExecCheck {
  ContainerId container;
  std::vector<std::string> argv;
  bool operator==(const ExecCheck&) const = default;
};

struct HttpCheck {
  bool tls = false;
  std::string host;  // a name, or an address without brackets
  uint16_t port = 80;
  std::string path = "/";  // with the query
  std::string authority;   // what the Host header says; "": host and port
  std::vector<std::pair<std::string, std::string>> headers = {};
  bool any_status = false;  // of a hook: whatever is answered is success
  bool operator==(const HttpCheck&) const = default;
};

struct TcpCheck {
  std::string host;
  uint16_t port = 0;
  bool operator==(const TcpCheck&) const = default;
};

struct GrpcCheck {
  std::string host;
  uint16_t port = 0;
  std::string service;
  bool operator==(const GrpcCheck&) const = default;
};

// Of a hook only.
struct SleepCheck {
  std::chrono::nanoseconds time{0};
  bool operator==(const SleepCheck&) const = default;
};

using Check = std::variant<ExecCheck, HttpCheck, TcpCheck, GrpcCheck, SleepCheck>;

struct CheckOutcome {
  enum class How : uint8_t {
    kSuccess,
    kWarning,  // success, and `text` is to be told
    kFailure,
    kError,  // it could not be tried: says nothing about the container
  };
  How how = How::kSuccess;
  std::string text = {};
  // HTTPS was asked for, and the peer speaks HTTP.
  bool plain_peer = false;
  int exit_code = 0;  // of a program
  // kError: the program ran, and nobody can tell any more how it ended.
  bool end_lost = false;
  bool operator==(const CheckOutcome&) const = default;
};

}  // namespace holdfast::agent
