// SPDX-License-Identifier: Apache-2.0
// Header blocks of SPDY/3.1: names and values, compressed by zlib with the protocol's dictionary, in one
// context per direction of a connection. Not thread-safe.
// Source: SPDY/3.1 section 2.6.10; control-plane 7.5.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::streams {

using SpdyHeaders = std::map<std::string, std::string>;  // names in lower case

class SpdyHeaderReader {
 public:
  static constexpr size_t kMaxBlock = 256 * 1024;  // when unpacked
  static constexpr size_t kMaxHeaders = 256;

  SpdyHeaderReader();
  ~SpdyHeaderReader();
  SpdyHeaderReader(SpdyHeaderReader&&) noexcept;
  // After an error the connection cannot go on.
  Result<SpdyHeaders> Read(std::string_view block);

 private:
  Result<std::string> Unpack(std::string_view block);
  struct State;
  std::unique_ptr<State> state_;  // made with the first block
};

class SpdyHeaderWriter {
 public:
  SpdyHeaderWriter();
  ~SpdyHeaderWriter();
  SpdyHeaderWriter(SpdyHeaderWriter&&) noexcept;
  Result<std::string> Write(const SpdyHeaders& headers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::agent::streams
