// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/agent/grpc/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, Http2) {
  using namespace std::string_literals;  // NOLINT: bytes with zeros
  Replay(FuzzHttp2, {"\0\0\0\x04\0\0\0\0\0"s + "\0\0\x05\x01\x04\0\0\0\x01hello"s +
                     "\0\0\x02\x09\x04\0\0\0\x01hi"s + "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08"s});
}

}  // namespace
}  // namespace holdfast::fuzz
